// Rank 0's executor and the workers that follow it, each rank a thread of the test: what one rank
// draws, and a step in which a rank finds no memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "adapters/adapter_test_util.h"
#include "adapters/paged_loader.h"
#include "adapters/peft_backend.h"
#include "cache/page_pool.h"
#include "cache/row_packer.h"
#include "executor/model_executor.h"
#include "executor/rank_worker.h"
#include "model/model_test_util.h"
#include "tensor/allocations.h"
#include "tensor/shared_memory.h"

namespace graft {
namespace rank_steps_test {

using ::testing::HasSubstr;
using testing::SourcePath;

constexpr int32_t kPageTokens = 16;
constexpr int32_t kPages = 4;
constexpr int32_t kAdapterPages = 100;
constexpr int64_t kHostBytes = 16 << 20;

ExecutorLimits Limits(const ModelConfig& config) {
  ExecutorLimits limits;
  limits.sequences_max = 2;
  limits.step_tokens_max = 32;
  limits.context_tokens_max = kPageTokens * kPages;
  limits.num_pages = kPages + kAdapterPages;
  limits.page_tokens = kPageTokens;
  limits.vocab_size = config.vocab_size;
  limits.adapters_max = 1;
  return limits;
}

constexpr TransformerLimits kTransformer{.step_tokens_max = 32,
                                         .logits_rows_max = 8,
                                         .sequences_max = 2,
                                         .context_tokens_max = kPageTokens * kPages};

constexpr char kDemo[] = "demo/base";
constexpr char kOlmo[] = "tests/goldens/olmo2";  // ranks sum up in each layer's attention, too

// A model on so many ranks.
class RankedExecutor {
 public:
  explicit RankedExecutor(int32_t num_ranks, const char* model = kDemo)
      : num_ranks_(num_ranks), folder_(SourcePath(model)) {
    const CommunicatorLimits limits{.num_ranks = num_ranks,
                                    .part_floats = PartFloatsOf(kTransformer, config_, num_ranks)};
    memory_ = SharedMemory::Create(Communicator::Bytes(limits)).value();
    Communicator::Format(limits, memory_.data());
    communicator_ = std::make_unique<Communicator>(memory_.data(), 0);
    exchange_ = MakeHostExchange(*communicator_);
    weights_ =
        LoadWeights(folder_, config_, TypesOf(DType::kF32), stream_, {}, {0, num_ranks}).value();
    for (int32_t rank = 1; rank < num_ranks; ++rank) {
      others_.emplace_back([this, rank] { Follow(rank); });
    }
    const ModelConfig shard = ShardConfig(config_, num_ranks);
    pool_ = std::make_unique<KvPool>(MakeKvLayout(shard, kPageTokens, DType::kF32),
                                     kPages + kAdapterPages);
    packer_ = std::make_unique<RowPacker>(ids_, PageUse::kAdapters, pool_->layout().PageBytes());
    transformer_ = std::make_unique<Transformer>(shard, weights_, *pool_, kTransformer, stream_,
                                                 exchange_.get());
    link_ = std::make_unique<RankLink>(*communicator_, host_memory_.data());
    const AdapterSlicer slicer = Slicer();
    host_ = std::make_unique<HostStore>(kHostBytes, metrics_, Device{}, std::move(host_memory_));
    backend_ =
        std::make_unique<PeftBackend>(config_, TypesOf(DType::kF32), *host_, FileJail(), slicer);
    loader_ = std::make_unique<PagedLoader>(
        config_, *backend_, *pool_, loras_, Device{}, metrics_, 1, FetchLimits{},
        LoaderRanks{.others = num_ranks > 1 ? link_.get() : nullptr, .slicer = slicer});
    executor_ = std::make_unique<ModelExecutor>(
        *transformer_, &loras_, Limits(config_), stream_,
        ExecutorParts{.arrivals = &loader_->arrivals(), .ranks = link_.get()});
    CHECK(link_->Start({.limits = Limits(config_), .transformer = kTransformer}).ok());
  }
  ~RankedExecutor() {
    loader_.reset();
    communicator_->Break("the test ends");
    for (std::thread& other : others_) other.join();
  }

  // The adapter's rows are on their way into slot 0 when this returns.
  void Load(const std::string& folder) {
    loader_->Fetch({.content = 0, .path = folder});
    const AdapterFacts facts = Next(LoadEvent::Kind::kFetched).facts;
    pages_ = packer_->Pack(facts.rows).value();
    std::vector<PageExtent> extents = pages_.extents();
    for (PageExtent& extent : extents) extent.page += kPages;
    EXPECT_TRUE(loader_->Copy({{.content = 0, .path = folder, .hash = facts.hash}, 0, extents}));
  }
  void AwaitCopied() { Next(LoadEvent::Kind::kCopied); }

  // The prompt's first step.
  StepPlan Begin(AdapterSlot adapter_slot = kNoAdapter) const {
    StepPlan plan;
    for (const int32_t token : {12, 800, 45, 3021, 7, 99, 2048}) {
      plan.tokens.push_back(token % config_.vocab_size);
    }
    PlannedSequence sequence;
    sequence.num_tokens = sequence.num_prompt_rows = static_cast<int32_t>(plan.tokens.size());
    sequence.num_pages = kPages;
    sequence.adapter_slot = adapter_slot;
    sequence.samples = sequence.prompt_logprobs = true;
    SequenceStart start;
    start.prompt_tokens = plan.tokens;
    for (int32_t page = 0; page < kPages; ++page) plan.pages.push_back(page);
    plan.sequences = {sequence};
    plan.starts = {start};
    return plan;
  }
  StepResult Run(const StepPlan& plan) { return executor_->Run(plan); }

 private:
  AdapterSlicer Slicer() const {
    if (num_ranks_ == 1) return {};
    return AdapterSlicer(config_, {0, num_ranks_}, TypesOf(DType::kF32));
  }

  LoadEvent Next(LoadEvent::Kind kind) {
    for (;;) {
      loader_->WaitForEvent();
      for (LoadEvent& event : loader_->TakeEvents()) {
        CHECK(event.status.ok()) << event.status.ToString();
        if (event.kind == kind) return std::move(event);
      }
    }
  }

  void Follow(int32_t rank) {
    ThreadPool threads(1);
    Stream stream{.device = {}, .cpu_threads = &threads};
    const ModelWeights weights =
        LoadWeights(folder_, config_, TypesOf(DType::kF32), stream, {}, {rank, num_ranks_}).value();
    Communicator communicator(memory_.data(), rank);
    const std::unique_ptr<RankExchange> exchange = MakeHostExchange(communicator);
    const Status end = RankWorker::Serve({.communicator = communicator,
                                          .exchange = *exchange,
                                          .model = config_,
                                          .weights = weights,
                                          .stream = stream,
                                          .host_memory = host_span_});
    EXPECT_THAT(end.message(), HasSubstr("the test ends"));
  }

  const int32_t num_ranks_;
  const std::string folder_;
  const ModelConfig config_ = LoadModelConfig(folder_).value();
  ThreadPool threads_{1};
  Stream stream_{.device = {}, .cpu_threads = &threads_};
  Metrics metrics_;
  SharedMemory memory_;
  SharedMemory host_memory_ = SharedMemory::Create(HostStore::SharedBytes(kHostBytes)).value();
  const std::span<char> host_span_{host_memory_.data(), static_cast<size_t>(host_memory_.bytes())};
  LoraStore loras_{config_, 1};
  PagePool ids_{kAdapterPages};
  std::unique_ptr<RowPacker> packer_;
  PackedRows pages_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<RankExchange> exchange_;
  ModelWeights weights_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<RankLink> link_;
  std::unique_ptr<HostStore> host_;
  std::unique_ptr<PeftBackend> backend_;
  std::unique_ptr<PagedLoader> loader_;
  std::unique_ptr<ModelExecutor> executor_;
  std::vector<std::thread> others_;
};

void ExpectSame(const StepResult& got, const StepResult& expected) {
  EXPECT_EQ(got.status.message(), "");
  EXPECT_EQ(got.sequences[0].token, expected.sequences[0].token);
  ASSERT_EQ(got.sequences[0].prompt_logprobs.size(), expected.sequences[0].prompt_logprobs.size());
  for (size_t i = 0; i < got.sequences[0].prompt_logprobs.size(); ++i) {
    EXPECT_NEAR(got.sequences[0].prompt_logprobs[i].logprob,
                expected.sequences[0].prompt_logprobs[i].logprob, 1e-4);
  }
}

TEST(RankStepsTest, SeveralRanksDrawWhatOneDraws) {
  for (const char* const model : {kDemo, kOlmo}) {
    RankedExecutor one(1, model);
    const StepResult expected = one.Run(one.Begin());
    for (const int32_t num_ranks : {2, 4}) {
      RankedExecutor several(num_ranks, model);
      ExpectSame(several.Run(several.Begin()), expected);
    }
  }
}

// Ranks copy their slices beside the step, which waits for each layer's rows.
void ExpectArrival(const std::string& folder, float* logprob) {
  RankedExecutor one(1);
  one.Load(folder);
  one.AwaitCopied();
  const StepResult expected = one.Run(one.Begin(0));
  const StepResult base = one.Run(one.Begin());
  *logprob = expected.sequences[0].prompt_logprobs[2].logprob;
  EXPECT_NE(*logprob, base.sequences[0].prompt_logprobs[2].logprob);
  for (const int32_t num_ranks : {2, 4}) {
    RankedExecutor several(num_ranks);
    several.Load(folder);
    ExpectSame(several.Run(several.Begin(0)), expected);
    several.AwaitCopied();
    ExpectSame(several.Run(several.Begin(0)), expected);
    ExpectSame(several.Run(several.Begin()), base);
  }
}

// With the head, of which each rank has its words, also for rows of a prompt.
TEST(RankStepsTest, AnAdapterArrivesOnAllRanks) {
  const std::string folder = SourcePath("demo/adapters/doyle");
  const testing::TempDir dir;
  testing::WriteWithHead(folder, *LoadModelConfig(SourcePath("demo/base")), dir.File("head"));
  float logprob = 0.0f, logprob_of_head = 0.0f;
  ExpectArrival(folder, &logprob);
  ExpectArrival(dir.File("head"), &logprob_of_head);
  EXPECT_NE(logprob, logprob_of_head);
}

// A thread's first step allocates its room for rows of x.
void ExpectFailureOfAStepAlone(const char* model) {
  SCOPED_TRACE(model);
  RankedExecutor one(1, model);
  const StepResult expected = one.Run(one.Begin());  // rank 0 has its room from here on
  for (const bool rank_zero_fails : {false, true}) {
    StepResult failed, next;
    RankedExecutor several(2, model);
    const auto run = [&] {
      {
        const AllocationLimit limit({}, 0);
        failed = several.Run(several.Begin());
      }
      next = several.Run(several.Begin());
    };
    if (rank_zero_fails) {
      std::thread(run).join();
    } else {
      run();
    }
    EXPECT_EQ(failed.status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(failed.status.message(), HasSubstr("memory ran out in a step of 7 rows"));
    if (!rank_zero_fails) {
      EXPECT_THAT(failed.status.message(), HasSubstr("rank 1: "));
    }
    ExpectSame(next, expected);
  }
}

TEST(RankStepsTest, MemoryThatRunsOutOnAnyRankCostsTheStepAlone) {
  ExpectFailureOfAStepAlone(kDemo);
}

TEST(RankStepsTest, MemoryThatRunsOutBeforeNormsOfAllHeadsCostsTheStepAlone) {
  std::thread([] { ExpectFailureOfAStepAlone(kOlmo); }).join();
}

}  // namespace rank_steps_test
}  // namespace graft
