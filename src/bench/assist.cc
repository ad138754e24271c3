// graft-bench assist: one prefill step with its adapter on the device, and the same step while the
// CPU computes for it: handed over by flags, with the stream stopped for it, and by one worker with
// threaded kernels (CaraServe, section 4.2, Figures 16 and 18); and the hand-off alone (17).
#include <algorithm>
#include <cstdio>
#include <memory>

#include "assist/cpu_assist.h"
#include "base/clock.h"
#include "base/random.h"
#include "bench/assist_ipc.h"
#include "bench/bench_commands.h"
#include "profile/report.h"
#include "profile/synthetic_adapter.h"
#include "runtime/runtime.h"
#include "runtime/worker_command.h"

namespace graft {
namespace {

enum class AssistModules : uint8_t { kAll, kQkv };
constexpr OptionWord<AssistModules> kAssistModulesWords[] = {{AssistModules::kAll, "all"},
                                                             {AssistModules::kQkv, "qkv"}};

struct BenchAssistOptions {
  RuntimeOptions runtime;
  std::string shape;
  std::string json;
  AssistModules modules = AssistModules::kAll;
  std::vector<int> rows = {128};
  std::vector<int> workers = {0};
  int rank = 64;
  int steps = 25;
  bool processes = false;
  bool ipc = false;
};

constexpr int kRounds = 5;
constexpr int kWarmupSteps = 2;  // of a round
constexpr AdapterSlot kOnDevice = 0;
constexpr AdapterSlot kOnItsWay = 1;

class AssistBench {
 public:
  explicit AssistBench(const BenchAssistOptions& options) : options_(options) {}
  Status Run();

 private:
  Status Prepare();
  TransformerLimits MakeTransformerLimits() const;
  std::span<const LoraModule> Modules() const;
  Status CheckFits(const ServedShape& shape, const MemoryBudget& budget, MemorySum sum) const;
  Status RunRow(int32_t rows, int32_t num_workers, OrderedJson* json);
  Result<std::unique_ptr<CpuAssist>> MakeAssist(CpuAssistOptions options);
  // Adds the milliseconds of a round of steps.
  void RunSteps(CpuAssist* assist, int32_t rows, AdapterSlot slot, std::vector<double>* times);
  StepPlan MakePlan(int32_t rows, AdapterSlot slot) const;

  const BenchAssistOptions options_;
  std::unique_ptr<LoadedModel> model_;
  Metrics metrics_;
  ExecutorLimits limits_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<LoraStore> loras_;
  std::unique_ptr<HostStore> store_;
  std::unique_ptr<PageArrivals> arrivals_;
  std::unique_ptr<Transformer> transformer_;
};

TransformerLimits AssistBench::MakeTransformerLimits() const {
  return {.step_tokens_max = limits_.step_tokens_max,
          .logits_rows_max = 64,
          .sequences_max = limits_.sequences_max,
          .context_tokens_max = limits_.context_tokens_max};
}

std::span<const LoraModule> AssistBench::Modules() const {
  const std::span<const LoraModule> modules(kAllLoraModules);
  return options_.modules == AssistModules::kQkv ? modules.subspan(0, 3) : modules;
}

Status AssistBench::CheckFits(const ServedShape& shape, const MemoryBudget& budget,
                              MemorySum sum) const {
  constexpr int kExchanges = 3;  // of a row of the table, at once
  const TransformerLimits limits = MakeTransformerLimits();
  const KvLayout layout = LayoutOf(shape, limits_);
  const TransformerSizes sizes = SizesOf(limits, shape.config, shape.types, layout, shape.device);
  const std::string rows = " of " + std::to_string(limits_.step_tokens_max) + " rows (--rows)";
  sum.Add("a step" + rows, BytesNeeded{sizes.on_device(), sizes.batch_on_host});
  sum.Add("keys and values" + rows, limits_.num_pages * layout.PageBytes());
  const CpuAssistOptions assist = {.num_workers = kHostFlagsMax, .synchronises = true};
  for (int i = 0; i < kExchanges; ++i) {
    sum.Add("the CPU assist" + rows, CpuAssist::BytesFor(assist, shape.config, shape.types,
                                                         limits_.step_tokens_max, shape.device));
  }
  const int64_t adapter =
      SyntheticAdapterBytes(shape.config, options_.rank, shape.types.adapters, Modules());
  sum.Add("an adapter (--rank)", adapter);
  sum.AddOnHost("adapters as they are made (--rank)", 3 * adapter);
  return sum.Check(budget);
}

// One adapter twice: in a slot, and for ever on its way to another.
Status AssistBench::Prepare() {
  const BenchAssistOptions& o = options_;
  const int rows_max = *std::max_element(o.rows.begin(), o.rows.end());
  limits_.sequences_max = 1;
  limits_.step_tokens_max = rows_max;
  limits_.context_tokens_max = rows_max;
  limits_.page_tokens = 16;
  limits_.num_pages = rows_max / limits_.page_tokens + 1;
  limits_.adapters_max = 2;
  const auto check = [this](const ServedShape& shape, const MemoryBudget& budget, MemorySum sum) {
    return CheckFits(shape, budget, std::move(sum));
  };
  ASSIGN_OR_RETURN(model_, LoadBenchModel(o.runtime, o.shape, check));
  const Device& device = model_->device;
  const DType dtype = model_->weights.types.adapters;
  limits_.vocab_size = model_->config.vocab_size;
  pool_ = std::make_unique<KvPool>(LayoutOf(model_->shape(), limits_), limits_.num_pages, device);
  transformer_ = std::make_unique<Transformer>(model_->config, model_->weights, *pool_,
                                               MakeTransformerLimits(), model_->stream);
  const std::span<const LoraModule> modules = Modules();
  const auto make_adapter = [&] {
    return MakeSyntheticAdapter(model_->config, o.rank, dtype, /*seed=*/1, modules);
  };
  ASSIGN_OR_RETURN(LoraWeights adapter, make_adapter());
  ASSIGN_OR_RETURN(LoraWeights copy, make_adapter());
  loras_ = std::make_unique<LoraStore>(model_->config, limits_.adapters_max, device);
  const int64_t store_bytes = 2 * adapter.bytes() + (int64_t{64} << 20);
  SharedMemory shared;
  if (o.processes) {
    ASSIGN_OR_RETURN(shared, SharedMemory::Create(HostStore::SharedBytes(store_bytes)));
  }
  store_ = std::make_unique<HostStore>(store_bytes, metrics_, device, std::move(shared));
  arrivals_ =
      std::make_unique<PageArrivals>(device, model_->config.num_layers, limits_.adapters_max);
  HostAdapter described = DescribeHostAdapter(copy, model_->config, "synthetic", "");
  arrivals_->Begin(kOnItsWay, store_->Put(std::move(described), std::move(copy)));
  loras_->Set(kOnDevice, std::move(adapter).TakeRows());
  return OkStatus();
}

StepPlan AssistBench::MakePlan(int32_t rows, AdapterSlot slot) const {
  Random random(1);
  StepPlan plan;
  PlannedSequence sequence;
  sequence.adapter_slot = slot;
  sequence.num_tokens = rows;
  sequence.num_prompt_rows = rows;
  sequence.num_pages = (rows + limits_.page_tokens - 1) / limits_.page_tokens;
  sequence.samples = true;
  for (int32_t row = 0; row < rows; ++row) {
    plan.tokens.push_back(static_cast<int32_t>(random.Below(limits_.vocab_size)));
  }
  for (int32_t page = 0; page < sequence.num_pages; ++page) plan.pages.push_back(page);
  plan.sequences.push_back(sequence);
  plan.bridges = true;
  plan.starts.push_back({0, {}, {0}, {}});
  return plan;
}

void AssistBench::RunSteps(CpuAssist* assist, int32_t rows, AdapterSlot slot,
                           std::vector<double>* times) {
  ModelExecutor executor(*transformer_, loras_.get(), limits_, model_->stream,
                         {.arrivals = arrivals_.get(), .bridge = assist});
  StepPlan plan = MakePlan(rows, slot);
  const int steps = (options_.steps + kRounds - 1) / kRounds;
  for (int i = 0; i < kWarmupSteps + steps; ++i) {
    ++plan.step_id;
    const int64_t begin_ns = SteadyClock::Get().NowNs();
    RunStep(executor, plan);
    const int64_t end_ns = SteadyClock::Get().NowNs();
    if (i >= kWarmupSteps) times->push_back(static_cast<double>(end_ns - begin_ns) * 1e-6);
    plan.starts.clear();
  }
}

Result<std::unique_ptr<CpuAssist>> AssistBench::MakeAssist(CpuAssistOptions options) {
  if (options_.processes) options.command = WorkerProgram();
  return CpuAssist::Create(options, model_->config, model_->weights.types, limits_.step_tokens_max,
                           *store_, *arrivals_, model_->device, metrics_);
}

Status AssistBench::RunRow(int32_t rows, int32_t num_workers, OrderedJson* json) {
  num_workers = ChooseAssistWorkers(num_workers);
  ASSIGN_OR_RETURN(const std::unique_ptr<CpuAssist> flags,
                   MakeAssist({.num_workers = num_workers}));
  ASSIGN_OR_RETURN(const std::unique_ptr<CpuAssist> synchronised,
                   MakeAssist({.num_workers = num_workers, .synchronises = true}));
  std::unique_ptr<CpuAssist> threaded;
  if (num_workers > 1 && !options_.processes) {
    ASSIGN_OR_RETURN(threaded, MakeAssist({.num_workers = 1, .worker_threads = num_workers}));
  }
  // In turns: other programs on the machine's cores slow all of them down alike.
  std::vector<double> base_times, device_times, flags_times, synchronised_times, threaded_times;
  for (int round = 0; round < kRounds; ++round) {
    RunSteps(nullptr, rows, kNoAdapter, &base_times);
    RunSteps(nullptr, rows, kOnDevice, &device_times);
    RunSteps(flags.get(), rows, kOnItsWay, &flags_times);
    RunSteps(synchronised.get(), rows, kOnItsWay, &synchronised_times);
    if (threaded != nullptr) RunSteps(threaded.get(), rows, kOnItsWay, &threaded_times);
  }
  const double base_ms = UpperMedian(std::move(base_times));
  const double device_ms = UpperMedian(std::move(device_times));
  const double flags_ms = UpperMedian(std::move(flags_times));
  const double synchronised_ms = UpperMedian(std::move(synchronised_times));
  const double threaded_ms =
      threaded == nullptr ? flags_ms : UpperMedian(std::move(threaded_times));
  const double saved = 1.0 - flags_ms / synchronised_ms;
  std::printf("%6d %8d %9.3f %10.3f %9.3f %13.3f %7.1f%% %9.3f\n", rows, num_workers, base_ms,
              device_ms, flags_ms, synchronised_ms, 100.0 * saved, threaded_ms);
  std::fflush(stdout);
  json->push_back({{"rows", rows},
                   {"workers", num_workers},
                   {"base_ms", base_ms},
                   {"device_ms", device_ms},
                   {"flags_ms", flags_ms},
                   {"synchronised_ms", synchronised_ms},
                   {"saved", saved},
                   {"threaded_ms", threaded_ms}});
  return OkStatus();
}

// The hand-off alone, of no device.
Status RunIpc(const BenchAssistOptions& options) {
  if (options.shape.empty()) {
    return InvalidArgumentError("--ipc takes its sizes from a model's shape: --shape FILE");
  }
  ASSIGN_OR_RETURN(const Json shape, ParseJsonFile(options.shape));
  ASSIGN_OR_RETURN(const ModelConfig config, ParseModelConfig(shape));
  AssistIpcOptions ipc{.rows = options.rows.front(),
                       .rank = options.rank,
                       .repeats = options.steps,
                       .workers = options.workers};
  for (int& count : ipc.workers) count = ChooseAssistWorkers(count);
  OrderedJson json = {{"machine", DescribeMachine()},
                      {"suite", "assist-ipc"},
                      {"shape", options.shape},
                      {"rank", options.rank},
                      {"prompt_rows", ipc.rows}};
  ASSIGN_OR_RETURN(json["rows"], RunAssistIpc(config, ipc));
  return WriteJson(options.json, json);
}

Status AssistBench::Run() {
  RETURN_IF_ERROR(Prepare());
  std::printf(
      "%s, %s, rank %d on %s modules, workers in %s\n", DescribeDevice(model_->device).c_str(),
      std::string(DTypeName(model_->weights.types.operands)).c_str(), options_.rank,
      WordOf(options_.modules, kAssistModulesWords), options_.processes ? "processes" : "threads");
  std::printf("ms of a prefill step:\n%6s %8s %9s %10s %9s %13s %8s %9s\n", "rows", "workers",
              "base", "on device", "by flags", "synchronised", "saved", "threaded");
  OrderedJson rows_json = OrderedJson::array();
  for (const int rows : options_.rows) {
    for (const int workers : options_.workers) {
      RETURN_IF_ERROR(RunRow(rows, workers, &rows_json));
    }
  }
  return WriteJson(options_.json, {{"machine", DescribeMachine()},
                                   {"suite", "assist"},
                                   {"device", DescribeDevice(model_->device)},
                                   {"shape", BenchModelName(options_.runtime, options_.shape)},
                                   {"rank", options_.rank},
                                   {"modules", WordOf(options_.modules, kAssistModulesWords)},
                                   {"processes", options_.processes},
                                   {"rows", rows_json}});
}

}  // namespace

Command BenchAssistCommand() {
  const auto options = std::make_shared<BenchAssistOptions>();  // lives as long as the command
  constexpr int kRowsMax = 1 << 20;
  return {
      .name = "assist",
      .help = "Time a prefill step while the CPU computes for its adapter.",
      .groups = {{"Model", BenchModelOptionRows(options->shape, options->runtime)},
                 {"Steps",
                  {{"rows", Numbers(options->rows, Between(1, kRowsMax)), "tokens of the prompt"},
                   {"workers", Numbers(options->workers, Between(0, kHostFlagsMax)),
                    "of the CPU assist; 0: as serve has them"},
                   {"processes", Switch(options->processes), "workers are processes"},
                   {"ipc", Switch(options->ipc),
                    "only hand rows to worker processes and back, through shared memory and "
                    "through sockets"},
                   {"rank", Number(options->rank, Between(1, kLoraRankMax)), "of the adapter"},
                   {"modules", OneOf(options->modules, kAssistModulesWords), "that it adapts"},
                   {"steps", Number(options->steps, AtLeast(1)), "timed steps of each kind"},
                   JsonOptionRow(options->json)}}},
      .run = [options] { return options->ipc ? RunIpc(*options) : AssistBench(*options).Run(); }};
}

}  // namespace graft
