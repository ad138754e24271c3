// Tests of the CPU assist alone: how it splits rows, and that it adds exactly the bits that the
// CPU's LoRA kernels would add. They try threads and processes, the CPU's stream and a GPU's, and a
// killed process. This program is also its own worker process.
#include "assist/cpu_assist.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "adapters/adapter_test_util.h"
#include "assist/assist_worker.h"
#include "model/test_session.h"

namespace graft {
namespace {

using testing::OddModel;
using testing::TestDevice;

// ---- Splitting ----

std::vector<int32_t> Split(const std::vector<AssistPart>& parts, int32_t num_workers) {
  std::vector<int32_t> begin(kHostFlagsMax + 1);
  const int32_t num_shares = SplitRows(parts, num_workers, begin.data());
  begin.resize(static_cast<size_t>(num_shares) + 1);
  return begin;
}

TEST(SplitRowsTest, FewRowsTakeFewWorkers) {
  const AssistCost cost{100.0, 10.0};  // ten rows cost as much as another worker does
  EXPECT_EQ(Split({{1, cost}}, 16), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(Split({{19, cost}}, 16), (std::vector<int32_t>{0, 19}));
  EXPECT_EQ(Split({{20, cost}}, 16), (std::vector<int32_t>{0, 10, 20}));
  EXPECT_EQ(Split({{128, cost}}, 4), (std::vector<int32_t>{0, 32, 64, 96, 128}));
  EXPECT_EQ(Split({{3, {0.0, 1.0}}}, 16), (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(BridgeRatesTest, AreALayersCostsByItsBytes) {
  ModelConfig config;
  config.hidden_size = 100;
  config.intermediate_size = 300;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 25;
  AssistProfile profile;
  for (const LoraModule first : AssistProfile::kFirstModules) {
    for (const int32_t rank : AssistProfile::kRanks) profile.Of(first, rank) = {2.0 * rank, 0.5};
  }
  const BridgeRates rates = RatesOf(profile, config, DType::kBF16, 3);
  EXPECT_EQ(rates.num_workers, 3);
  ASSERT_EQ(rates.ranks.size(), AssistProfile::kRanks.size());
  // Elements of two bytes per rank: q 200, k 150, v 150, o 200, gate 400, up 400, down 400.
  for (const BridgeRates::OfRank& rate : rates.ranks) {
    EXPECT_NEAR(rate.read_ns * 3800 * rate.rank, 4 * 2000.0 * rate.rank, 1e-6);
    EXPECT_NEAR(rate.row_ns * 3800 * rate.rank, 4 * 500.0, 1e-9);
  }
}

TEST(SplitRowsTest, SharesCostTheSame) {
  // A row of eight times the rank costs eight times as much.
  const std::vector<AssistPart> parts = {{80, {10.0, 1.0}}, {30, {80.0, 8.0}}};
  const std::vector<int32_t> begin = Split(parts, 4);
  ASSERT_EQ(begin.size(), 5u);
  for (size_t i = 0; i + 1 < begin.size(); ++i) {
    double cost = 0.0;
    for (int32_t row = begin[i]; row < begin[i + 1]; ++row) cost += row < 80 ? 1.0 : 8.0;
    EXPECT_NEAR(cost, 80.0, 8.0) << i;
  }
}

TEST(SplitRowsTest, CoversAllRowsInOrder) {
  Random random(3);
  for (int i = 0; i < 500; ++i) {
    std::vector<AssistPart> parts(1 + random.Below(6));
    int32_t num_rows = 0;
    for (AssistPart& part : parts) {
      part.num_rows = 1 + static_cast<int32_t>(random.Below(40));
      part.cost = {static_cast<double>(random.Below(30)),
                   static_cast<double>(1 + random.Below(100)) * 0.1};
      num_rows += part.num_rows;
    }
    const auto workers = static_cast<int32_t>(1 + random.Below(kHostFlagsMax));
    const std::vector<int32_t> begin = Split(parts, workers);
    ASSERT_LE(begin.size(), static_cast<size_t>(workers) + 1);
    ASSERT_EQ(begin.front(), 0);
    ASSERT_EQ(begin.back(), num_rows);
    ASSERT_TRUE(std::is_sorted(begin.begin(), begin.end()));
  }
}

TEST(AssistProfileTest, MeasuresEveryProjection) {
  const AssistProfile profile = AssistProfile::Measure(OddModel(), DType::kBF16, true);
  for (const LoraModule first : AssistProfile::kFirstModules) {
    for (const int32_t rank : {1, 8, 9, 64, 256}) {
      EXPECT_GT(profile.Of(first, rank).row_us, 0.0);
      EXPECT_GE(profile.Of(first, rank).fixed_us, 0.0);
    }
  }
  EXPECT_EQ(&profile.Of(LoraModule::kQ, 9), &profile.Of(LoraModule::kQ, 16));
}

// ---- Answers ----

enum class Workers { kThreads, kProcesses };

constexpr int32_t kRowsMax = 96;
constexpr const char* kAdapters[] = {
    R"("r": 5, "target_modules": "all-linear")",
    R"("r": 64, "lora_alpha": 3, "target_modules": ["q_proj", "v_proj", "o_proj", "up_proj"])",
    R"("r": 16, "target_modules": ["k_proj", "down_proj"], "rank_pattern": {"layers.1": 9})",
};

class CpuAssistTest : public ::testing::TestWithParam<std::tuple<DeviceKind, Workers>> {
 protected:
  void SetUp() override {
    if (!device_.exists()) GTEST_SKIP() << "this machine shows no GPU";
    const bool in_processes = std::get<1>(GetParam()) == Workers::kProcesses;
    constexpr int64_t kStoreBytes = int64_t{8} << 20;
    SharedMemory shared;
    if (in_processes) shared = *SharedMemory::Create(HostStore::SharedBytes(kStoreBytes));
    store_.emplace(kStoreBytes, metrics_, device_.stream().device, std::move(shared));
    arrivals_.emplace(device_.stream().device, model_.num_layers, 8);
    CpuAssistOptions options;
    options.num_workers = 3;
    if (in_processes) options.command = {"/proc/self/exe", "assist-worker"};
    assist_ = *CpuAssist::Create(options, model_, TypesOf(DType::kF32), kRowsMax, *store_,
                                 *arrivals_, device_.stream().device, metrics_);
    for (int32_t slot = 0; slot < 3; ++slot) {
      const PeftConfig peft = testing::Peft(kAdapters[slot]);
      const SafetensorsFile file =
          testing::FileOf(testing::LoraTestTensors(peft, model_, "F32", 7 + slot));
      weights_.push_back(*LoraWeights::Load(file, peft, model_, DType::kF32));
      LoraWeights copy = *LoraWeights::Load(file, peft, model_, DType::kF32);
      HostAdapter adapter =
          DescribeHostAdapter(copy, model_, "hash " + std::to_string(slot), "base");
      arrivals_->Begin(slot, store_->Put(std::move(adapter), std::move(copy)));
    }
  }

  // x, y, and the y that the device's Lora would leave, for all rows of a projection.
  struct Operands {
    LoraArgs args;
    PinnedBuffer x, y;
    std::vector<float> expected;
  };
  void Fill(const std::vector<LoraSegment>& segments, int32_t layer, LoraModule first,
            Operands* operands) {
    LoraArgs& args = operands->args;
    args.num_slices = 0;
    args.num_rows = kRowsMax;
    for (const LoraModule module : ModulesOfProjection(first)) {
      const LoraModuleShape shape = ShapeOfLoraModule(model_, module);
      args.k = shape.in;
      args.slice_begin[args.num_slices] = args.y_stride;
      args.slice_n[args.num_slices++] = shape.out;
      args.y_stride += shape.out;
    }
    args.x_stride = args.k + 3;
    args.x_is_fp32 = true;
    operands->x = PinnedBuffer(kRowsMax * args.x_stride * 4);
    operands->y = PinnedBuffer(kRowsMax * args.y_stride * 4);
    args.x = operands->x.as<float>();
    args.y = operands->y.as<float>();
    for (int64_t i = 0; i < kRowsMax * args.x_stride; ++i) {
      operands->x.as<float>()[i] = static_cast<float>(random_.Normal());
    }
    for (int64_t i = 0; i < kRowsMax * args.y_stride; ++i) {
      args.y[i] = static_cast<float>(random_.Normal());
    }
    operands->expected.assign(args.y, args.y + kRowsMax * args.y_stride);
    std::vector<LoraMatrix> matrices;
    for (const LoraWeights& weights : weights_) {
      for (const LoraModule module : ModulesOfProjection(first)) {
        matrices.push_back(weights.matrix(layer, module));
      }
    }
    std::vector<float> h(static_cast<size_t>(args.num_slices * kRowsMax * kLoraRankMax));
    LoraArgs direct = args;
    direct.segments = segments.data();
    direct.num_segments = static_cast<int32_t>(segments.size());
    direct.matrices = matrices.data();
    direct.matrices_stride = args.num_slices;
    direct.h = h.data();
    direct.h_stride = kLoraRankMax;
    direct.y = operands->expected.data();
    ThreadPool threads(1);
    Stream stream{.device = {}, .cpu_threads = &threads};
    Lora(direct, stream);
  }

  // Runs all projections of a step through the assist. `meanwhile` runs between the two halves of
  // each.
  void ExpectStep(const std::vector<LoraSegment>& segments,
                  const std::function<void()>& meanwhile = {}) {
    HostBatch batch;
    const size_t half = segments.size() / 2;  // either kind of segment will do
    batch.lora_segments = std::span(segments).subspan(0, half);
    batch.lora_prompt_segments = std::span(segments).subspan(half);
    assist_->Enter(&batch);
    ASSERT_EQ(batch.bridge, assist_.get());
    EXPECT_TRUE(batch.settled_segments.empty() && batch.settled_prompt_segments.empty());
    for (int32_t layer = 0; layer < model_.num_layers; ++layer) {
      ASSERT_TRUE(assist_->TakesLayer(layer));
      for (const LoraModule first : AssistProfile::kFirstModules) {
        Operands operands;
        Fill(segments, layer, first, &operands);
        assist_->Begin(layer, first, operands.args, device_.stream());
        if (meanwhile) meanwhile();
        assist_->Finish(operands.args, device_.stream());
        Synchronize(device_.stream());
        ASSERT_TRUE(std::equal(operands.expected.begin(), operands.expected.end(), operands.args.y))
            << "layer " << layer << ", " << LoraModuleName(first);
      }
    }
  }

  TestDevice device_{std::get<0>(GetParam())};
  ModelConfig model_ = OddModel();
  Metrics metrics_;
  std::optional<HostStore> store_;
  std::vector<LoraWeights> weights_;
  std::optional<PageArrivals> arrivals_;
  std::unique_ptr<CpuAssist> assist_;
  Random random_{5};
};

TEST_P(CpuAssistTest, AnswersAreLorasBits) {
  ExpectStep({{0, 1, 0}});
  ExpectStep({{3, 96, 1}});
  ExpectStep({{0, 7, 0}, {9, 9, 1}, {9, 40, 1}, {40, 41, 0}, {60, 95, 2}});
  for (int i = 0; i < 20; ++i) {
    std::vector<LoraSegment> segments;
    for (int32_t row = static_cast<int32_t>(random_.Below(5)); row < kRowsMax;) {
      const int32_t end = std::min<int32_t>(kRowsMax, row + 6 + random_.Below(30));
      segments.push_back({row, end, static_cast<int32_t>(random_.Below(3))});
      row = end + static_cast<int32_t>(random_.Below(4));
    }
    ExpectStep(segments);
  }
}

TEST_P(CpuAssistTest, TakesWhatHasNotArrived) {
  const std::vector<LoraSegment> segments = {{0, 4, 0}, {4, 9, 5}, {9, 12, 1}};
  HostBatch batch;
  batch.lora_prompt_segments = segments;
  OwnedStream copies(device_.stream().device, nullptr);
  PageArrival& first = arrivals_->At(0);
  PageArrival& second = arrivals_->At(1);
  first.QueuedLayer(copies.get());
  Synchronize(copies.get());
  assist_->Enter(&batch);
  ASSERT_EQ(batch.bridge, assist_.get());
  ASSERT_EQ(batch.settled_prompt_segments.size(), 1u);
  EXPECT_EQ(batch.settled_prompt_segments[0].adapter_slot, 5);
  EXPECT_TRUE(assist_->TakesLayer(0)) << "the second one has not";
  second.QueuedLayer(copies.get());
  Synchronize(copies.get());
  EXPECT_FALSE(assist_->TakesLayer(0));
  EXPECT_TRUE(assist_->TakesLayer(1));
  for (int32_t layer = 1; layer < model_.num_layers; ++layer) {
    first.QueuedLayer(copies.get());
    second.QueuedLayer(copies.get());
  }
  Synchronize(copies.get());
  EXPECT_FALSE(assist_->TakesLayer(model_.num_layers - 1));
  batch.bridge = nullptr;
  assist_->Enter(&batch);
  EXPECT_EQ(batch.bridge, nullptr) << "all have arrived";
}

TEST_P(CpuAssistTest, LeavesToTheGateWhatItCannotTake) {
  std::vector<LoraSegment> segments;
  for (int32_t row = 0; row <= kHostSegmentsMax; ++row) {
    segments.push_back({2 * row, 2 * row + 1, 0});
  }
  HostBatch batch;
  batch.lora_segments = segments;
  assist_->Enter(&batch);
  EXPECT_EQ(batch.bridge, nullptr) << "too many stretches of rows";
  // What the host store had no room for is in no worker process's memory either.
  HostStore none(0, metrics_);
  const PeftConfig peft = testing::Peft(kAdapters[0]);
  LoraWeights weights = *LoraWeights::Load(testing::FileOf(testing::LoraTestTensors(peft, model_)),
                                           peft, model_, DType::kF32);
  HostAdapter adapter = DescribeHostAdapter(weights, model_, "lone", "base");
  arrivals_->Begin(4, none.Put(std::move(adapter), std::move(weights)));
  segments = {{0, 1, 4}};
  batch.lora_segments = segments;
  assist_->Enter(&batch);
  EXPECT_EQ(batch.bridge != nullptr, std::get<1>(GetParam()) == Workers::kThreads);
}

// The first process that runs.
pid_t AnyProcess(const AssistWorkers& workers) {
  for (;;) {
    for (const pid_t process : workers.processes()) {
      if (process != 0) return process;
    }
    usleep(1000);
  }
}

TEST_P(CpuAssistTest, KilledWorkersAreReplacedAndTheirSharesComputed) {
  if (std::get<1>(GetParam()) == Workers::kThreads) GTEST_SKIP() << "threads do not die alone";
  const std::vector<LoraSegment> segments = {{0, 50, 1}, {51, 96, 0}};
  const pid_t before = AnyProcess(assist_->workers());
  int countdown = 0;
  ExpectStep(segments, [&] {
    if (++countdown % 2 == 0) return;
    kill(AnyProcess(assist_->workers()), SIGKILL);
  });
  ExpectStep(segments);
  // The processes are stopped before they answer, and then killed: the step must not wait for them.
  AnyProcess(assist_->workers());
  for (const pid_t process : assist_->workers().processes()) {
    if (process != 0) kill(process, SIGSTOP);
  }
  ExpectStep(segments, [&] {
    for (const pid_t process : assist_->workers().processes()) {
      if (process != 0) kill(process, SIGKILL);
    }
  });
  EXPECT_NE(AnyProcess(assist_->workers()), before);
  EXPECT_EQ(metrics_.Render().find("graft_cpu_assist_restarts_total 0"), std::string::npos);
}

TEST(CpuAssistOptionsTest, RefusesWhatItCannotDo) {
  Metrics metrics;
  HostStore store(0, metrics);
  const PageArrivals arrivals({}, 1, 1);
  const auto create = [&](int32_t num_workers, DType dtype, const ModelConfig& model = OddModel()) {
    CpuAssistOptions options;
    options.num_workers = num_workers;
    return CpuAssist::Create(options, model, TypesOf(dtype), 8, store, arrivals, Device{}, metrics)
        .status()
        .message();
  };
  EXPECT_NE(create(0, DType::kF32).find("workers"), std::string::npos);
  EXPECT_NE(create(kHostFlagsMax + 1, DType::kF32).find("workers"), std::string::npos);
  EXPECT_NE(create(1, DType::kF16).find("fp16"), std::string::npos);
  const ModelConfig gpt2 = *LoadModelConfig(testing::SourcePath("tests/goldens/gpt2"));
  EXPECT_NE(create(1, DType::kF32, gpt2).find("GPT2LMHeadModel"), std::string::npos);
}

// If the workers' program does not start at all, threads do the work.
TEST(CpuAssistOptionsTest, WorksWithoutItsProgram) {
  Metrics metrics;
  const SharedMemory memory =
      *SharedMemory::Create(AssistExchange::Bytes({.rows_max = 1, .x_row_bytes = 4}));
  AssistExchange exchange({.rows_max = 1, .x_row_bytes = 4, .num_workers = 1}, memory.data());
  const AssistWorkers workers(exchange, {{"/nonexistent/graft"}, &memory, &memory}, metrics);
  for (uint32_t i = 1; i <= 2 * kAssistJobs; ++i) {
    const uint32_t number = exchange.NextNumber(0);
    EXPECT_EQ(number, i);
    exchange.Prepare(number).num_segments = 0;
    exchange.Post(number, 1);
    __atomic_store_n(exchange.exported(), number, __ATOMIC_RELEASE);
  }
  exchange.NextNumber(0);
  EXPECT_EQ(__atomic_load_n(exchange.answered(), __ATOMIC_ACQUIRE), 2 * kAssistJobs);
}

INSTANTIATE_TEST_SUITE_P(
    Devices, CpuAssistTest,
    ::testing::Combine(::testing::Values(DeviceKind::kCpu, DeviceKind::kCuda),
                       ::testing::Values(Workers::kThreads, Workers::kProcesses)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param) == DeviceKind::kCpu ? "cpu_" : "cuda_") +
             (std::get<1>(info.param) == Workers::kThreads ? "threads" : "processes");
    });

// Does what `graft assist-worker` does, with flags in the order in which AssistWorkers writes them.
int RunWorker(char** argv) {
  return RunAssistProcess({.exchange = std::atoi(argv[3]),
                           .store = std::atoi(argv[5]),
                           .worker = std::atoi(argv[7]),
                           .parent = std::atoll(argv[9])})
                 .ok()
             ? 0
             : 1;
}

}  // namespace
}  // namespace graft

int main(int argc, char** argv) {
  if (argc == 10 && std::strcmp(argv[1], "assist-worker") == 0) return graft::RunWorker(argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
