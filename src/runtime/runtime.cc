#include "runtime/runtime.h"

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "options/config_file.h"
#include "runtime/adapter_priorities.h"
#include "runtime/page_size.h"
#include "runtime/progress.h"
#include "tensor/host_memory.h"

namespace graft {
namespace {

// What the pool may take of what the weights left, where nobody said: a machine has other programs;
// a GPU is ours, but for activations, recorded graphs and what the driver needs. `promised_bytes`
// look free and are not.
int64_t PoolBytesMax(const Device& device, int64_t promised_bytes) {
  constexpr int64_t kReserveBytes = int64_t{3} << 30;
  const int64_t free_bytes = FreeMemoryBytes(device) - promised_bytes;
  if (device.is_cpu()) return free_bytes / 2;
  return std::max(free_bytes - kReserveBytes, free_bytes / 2);
}

// A quarter of what the machine has left: the rest is the page cache's, which holds the files.
constexpr double kHostShare = 0.25;

int64_t ToBytes(double gib) { return static_cast<int64_t>(gib * (int64_t{1} << 30)); }

// More of anything than this is a slip of the hand, and would end in a lack of memory.
Status CheckCount(const char* flag, int64_t value, int64_t most) {
  if (value >= 1 && value <= most) return OkStatus();
  return InvalidArgumentError(std::string("--") + flag + " must be between 1 and " +
                              std::to_string(most) + ", got " + std::to_string(value));
}

Status CheckCpuAssist(const RuntimeOptions& options) {
  const std::string& where = options.cpu_assist;
  if (!where.empty() && where != "off" && where != "thread" && where != "process") {
    return InvalidArgumentError("unknown --cpu-assist '" + where + "'; use off, thread or process");
  }
  if (where == "off" && options.cold_start == "cpu-assist") {
    return InvalidArgumentError(
        "--cold-start cpu-assist has nobody who computes with --cpu-assist off; use --cpu-assist "
        "thread or process, or --cold-start auto or layerwise");
  }
  return OkStatus();
}

Status CheckOptions(const RuntimeOptions& options) {
  RETURN_IF_ERROR(CheckCount("sequences-max", options.sequences_max, 2048));
  RETURN_IF_ERROR(CheckCount("step-tokens-max", options.step_tokens_max, 1 << 20));
  RETURN_IF_ERROR(CheckCount("page-tokens", options.page_tokens, 1 << 20));
  RETURN_IF_ERROR(CheckCount("adapters-max", options.adapters_max, 1 << 20));
  RETURN_IF_ERROR(CheckCount("requests-max", options.requests_max, 1 << 30));
  if (options.context_tokens_max < 0) {
    return InvalidArgumentError("--context-tokens-max must be 0 (the model's own) or more");
  }
  RETURN_IF_ERROR(CheckCount("adapters-listed-max", options.adapters_listed_max, 1 << 24));
  if (!(options.pool_gib >= 0.0 && options.pool_gib < 1e6)) {
    return InvalidArgumentError("--pool-gib must be 0 (chosen for you) or more");
  }
  const double machine_gib = static_cast<double>(TotalHostBytes()) / (int64_t{1} << 30);
  if (!(options.host_gib <= machine_gib && options.read_at_start_gib >= 0.0)) {
    return InvalidArgumentError(
        "--host-gib and --read-at-start-gib are sizes in GiB; the first is chosen for you below 0, "
        "and at most the machine's " +
        std::to_string(static_cast<int64_t>(machine_gib)));
  }
  if (options.pool != "shared" && options.pool != "static") {
    return InvalidArgumentError("unknown pool '" + options.pool + "'; use shared or static");
  }
  if (!(options.adapter_share > 0.0 && options.adapter_share < 1.0)) {
    return InvalidArgumentError("--adapter-share must lie between 0 and 1");
  }
  if (options.prefill_chunk_max < 0) {
    return InvalidArgumentError("--prefill-chunk-max must be 0 (whole steps) or more");
  }
  if (options.turn_ms < 0) return InvalidArgumentError("--turn-ms must be 0 or more");
  RETURN_IF_ERROR(CheckCpuAssist(options));
  if (options.cpu_assist_workers < 0 || options.cpu_assist_workers > kHostFlagsMax) {
    return InvalidArgumentError("--cpu-assist-workers must be between 0 (chosen for you) and " +
                                std::to_string(kHostFlagsMax));
  }
  if (options.lora_kernel != "segmented" && options.lora_kernel != "after" &&
      options.lora_kernel != "bmm") {
    return InvalidArgumentError("unknown LoRA kernel '" + options.lora_kernel +
                                "'; use segmented, after or bmm");
  }
  if (options.merge != "off" && options.merge != "auto") {
    return InvalidArgumentError("unknown merge '" + options.merge + "'; use off or auto");
  }
  if (options.merge_after_steps < 0) {
    return InvalidArgumentError("--merge-after-steps must be 0 (chosen for you) or more");
  }
  RETURN_IF_ERROR(ParseAdapterPriorities(options.priorities, options.pins).status());
  return ParseColdStart(options.cold_start).status();
}

// Device, threads and stream; everything of a LoadedModel but config and weights.
Result<std::unique_ptr<LoadedModel>> PrepareModel(const RuntimeOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  auto model = std::make_unique<LoadedModel>();
  ASSIGN_OR_RETURN(model->device, ParseDevice(options.device));
  const int cpus = NumCpus();
  if (options.threads < 0 || options.threads > 4096) {
    return InvalidArgumentError("--threads must be between 0 (one per core) and 4096");
  }
  model->threads = std::make_unique<ThreadPool>(options.threads == 0 ? cpus : options.threads);
  model->owned_stream = std::make_unique<OwnedStream>(model->device, model->threads.get());
  model->stream = model->owned_stream->get();
  return model;
}

int32_t ContextTokensMax(const RuntimeOptions& options, const ModelConfig& config) {
  if (options.context_tokens_max == 0) return config.context_tokens_max;
  return std::min(options.context_tokens_max, config.context_tokens_max);
}

// Pages that an adapter of a usual large rank takes, all modules adapted.
int64_t PagesOfLargeAdapter(const ModelConfig& config, DType dtype, int64_t page_bytes) {
  constexpr int64_t kRank = 64;
  int64_t row_elements = 0;
  for (const LoraModule module : kAllLoraModules) {
    const LoraModuleShape shape = ShapeOfLoraModule(config, module);
    row_elements += shape.in + shape.out;
  }
  return config.num_layers * row_elements * kRank * DTypeBytes(dtype) / page_bytes + 1;
}

int64_t PagesPerContext(const ExecutorLimits& limits) {
  return (int64_t{limits.context_tokens_max} + limits.page_tokens - 1) / limits.page_tokens;
}

// Of a static pool, the adapters' own; 0 where they share it.
int32_t AdapterPages(const RuntimeOptions& options, const ExecutorLimits& limits) {
  if (options.pool != "static" || limits.adapters_max == 0) return 0;
  return std::max(1, static_cast<int32_t>(limits.num_pages * options.adapter_share));
}

// What every sequence at full context and every adapter on the device could use, within what the
// device has left.
int32_t NumPages(const RuntimeOptions& options, const LoadedModel& model, const KvLayout& layout,
                 const ExecutorLimits& limits, int64_t promised_bytes) {
  int64_t num_pages = PagesPerContext(limits) * options.sequences_max +
                      limits.adapters_max * PagesOfLargeAdapter(model.config, model.weights.dtype,
                                                                layout.PageBytes());
  if (options.pool_gib > 0.0) {
    num_pages = ToBytes(options.pool_gib) / layout.PageBytes();
  } else {
    num_pages =
        std::min(num_pages, PoolBytesMax(model.device, promised_bytes) / layout.PageBytes());
  }
  return static_cast<int32_t>(std::min<int64_t>(num_pages, 1 << 24));
}

Status CheckPool(const RuntimeOptions& options, const ExecutorLimits& limits) {
  if (limits.page_bytes > INT32_MAX) {
    return InvalidArgumentError("a page of " + std::to_string(limits.page_tokens) +
                                " tokens would have " + std::to_string(limits.page_bytes) +
                                " bytes, 2 GiB is the most; lower --page-tokens");
  }
  const int64_t pages_per_context = PagesPerContext(limits);
  const int32_t adapter_pages = AdapterPages(options, limits);
  const int32_t kv_pages = limits.num_pages - adapter_pages;
  if (kv_pages >= pages_per_context) return OkStatus();
  return ResourceExhaustedError(
      "the page pool would hold " + std::to_string(kv_pages) + " pages of " +
      std::to_string(limits.page_tokens) + " tokens" +
      (adapter_pages > 0 ? " beside the adapters' " + std::to_string(adapter_pages) : "") +
      ", one full context needs " + std::to_string(pages_per_context) +
      "; raise --pool-gib or lower --context-tokens-max (now " +
      std::to_string(limits.context_tokens_max) + ")" +
      (adapter_pages > 0 ? " or --adapter-share" : ""));
}

int64_t HostBytes(const RuntimeOptions& options) {
  if (options.host_gib >= 0.0) return ToBytes(options.host_gib);
  return static_cast<int64_t>(static_cast<double>(FreeMemoryBytes(Device{})) * kHostShare);
}

// "thread" or "process"; "off" where no step would ask for it.
std::string CpuAssistOf(const RuntimeOptions& options) {
  const ColdStart cold_start = *ParseColdStart(options.cold_start);
  const bool must = cold_start == ColdStart::kCpuAssist;
  if (!must && cold_start != ColdStart::kAuto) return "off";
  if (options.cpu_assist.empty()) return must ? "thread" : "off";
  return options.cpu_assist;
}

// The low-rank path costs a merge in 7 (rank 64) to 9 (rank 16) decode steps of an H200, in 70 of
// two CPU cores (docs/benchmarks.md): waiting for about as many loses at most as much again.
int32_t MergeAfterSteps(const RuntimeOptions& options, const Device& device) {
  if (options.merge_after_steps > 0) return options.merge_after_steps;
  return device.is_cpu() ? 64 : 8;
}

EngineOptions EngineOptionsOf(const RuntimeOptions& options, const ExecutorLimits& limits,
                              const LoadedModel& model, EngineAdapterCatalog& catalog) {
  EngineOptions engine;
  engine.requests_max = options.requests_max;
  engine.prefill_chunk_max = options.prefill_chunk_max;
  engine.prefix_cache = options.prefix_cache;
  engine.runs_ahead = options.run_ahead;
  engine.eos_token_ids = model.config.eos_token_ids;
  engine.cold_start = *ParseColdStart(options.cold_start);
  engine.turn_ns = int64_t{options.turn_ms} * 1'000'000;
  if (options.merge == "auto") engine.merge_after_steps = MergeAfterSteps(options, model.device);
  engine.adapter_pages = AdapterPages(options, limits);
  engine.adapter_label = [&catalog](const std::string& key) {
    return key.empty() ? std::string("base") : catalog.NameOf(key);
  };
  return engine;
}

void AddAdapterOptions(CLI::App& command, RuntimeOptions& options) {
  command
      .add_option("--pool", options.pool,
                  "shared: KV and adapters take pages of one pool as they need them; static: each "
                  "has its own")
      ->capture_default_str();
  command.add_option("--adapter-share", options.adapter_share, "adapters' share of a static pool")
      ->capture_default_str();
  command.add_option("--adapters-max", options.adapters_max, "adapters on the device at once")
      ->capture_default_str();
  command
      .add_option("--adapters-listed-max", options.adapters_listed_max,
                  "adapters that requests may ask for")
      ->capture_default_str();
  command
      .add_option("--host-gib", options.host_gib,
                  "GiB of adapters kept in the host's memory; below 0: a quarter of what is free")
      ->capture_default_str();
  command
      .add_option("--read-at-start-gib", options.read_at_start_gib,
                  "an adapters folder of up to this size is read and checked before serving; a "
                  "larger one adapter by adapter at first use")
      ->capture_default_str();
  command
      .add_option("--cold-start", options.cold_start,
                  "while an adapter loads: join-later (its requests wait, others go on), layerwise "
                  "(its requests begin, their steps wait for each layer's rows), cpu-assist (as "
                  "layerwise, but the CPU computes what is missing), auto (of these, per request, "
                  "what costs all the least waiting; cpu-assist where --cpu-assist says where), "
                  "blocking (everybody waits), or cached "
                  "(all are loaded before serving, and stay)")
      ->capture_default_str();
  command.add_option("--cpu-assist", options.cpu_assist,
                     "where the CPU computes for adapters on their way: thread, process (one per "
                     "worker, on a core of its own), or off [off; thread with --cold-start "
                     "cpu-assist]");
  command
      .add_option("--cpu-assist-workers", options.cpu_assist_workers,
                  "its workers; 0: one per core but two")
      ->capture_default_str();
  command
      .add_option("--turn-ms", options.turn_ms,
                  "how long younger requests run ahead of one whose adapter finds no room")
      ->capture_default_str();
  AddStepOptions(command, options);
  command.add_option("--pin", options.pins,
                     "an adapter that stays in the host's memory; may be repeated");
  command.add_option("--priority", options.priorities,
                     "NAME=N: an adapter that stays there longer than those of lower priorities "
                     "(0 unless given), -1000 to 1000; may be repeated");
}

}  // namespace

void AddStepOptions(CLI::App& command, RuntimeOptions& options) {
  command
      .add_option("--step-tokens-max", options.step_tokens_max,
                  "token rows of one step; long prompts are cut into chunks of it")
      ->capture_default_str();
  command
      .add_option("--prefill-chunk-max", options.prefill_chunk_max,
                  "of them, rows of one request's prompt; 0: as many as there are")
      ->capture_default_str();
  command
      .add_option(
          "--lora-kernel", options.lora_kernel,
          "segmented: rows are gathered where they lie, a few adapters' while a GPU multiplies "
          "with "
          "the weights; to compare with, after: always after that; bmm: adapters are copied for "
          "every request and step, padded to one rank, and multiplied one by one")
      ->capture_default_str();
  command
      .add_option("--merge", options.merge,
                  "auto: an adapter that has all requests for itself is merged into a second copy "
                  "of the projections' weights, and its rows round differently then; or off")
      ->capture_default_str();
  command
      .add_option(
          "--merge-after-steps", options.merge_after_steps,
          "steps in a row that are one adapter's before it is merged; 0: as many as the merge "
          "costs, 8 on a GPU, 64 on the CPU")
      ->capture_default_str();
  command
      .add_option("--run-ahead", options.run_ahead,
                  "on a GPU, begin a decode step before the tokens of the one before it are known")
      ->capture_default_str();
}

int ChooseAssistWorkers(int asked) {
  constexpr int kOthers = 2;  // the engine's thread, and those that speak HTTP
  return asked == 0 ? std::clamp(NumCpus() - kOthers, 1, kHostFlagsMax) : asked;
}

std::vector<std::string> AssistWorkerCommand() { return {"/proc/self/exe", "assist-worker"}; }

void AddDeviceOptions(CLI::App& command, std::string& device, int& threads) {
  command.add_option("--device", device, "auto, cpu or cuda:N")->capture_default_str();
  command.add_option("--threads", threads, "kernel threads; 0: one per core")
      ->capture_default_str();
}

void AddModelOptions(CLI::App& command, RuntimeOptions& options) {
  command.add_option("--model", options.model, "HF model folder (config.json, *.safetensors)");
  AddDeviceOptions(command, options.device, options.threads);
  command
      .add_option("--dtype", options.dtype, "auto (the checkpoint's), bf16, fp32, or fp16 on a GPU")
      ->capture_default_str();
}

void AddRuntimeOptions(CLI::App& command, RuntimeOptions& options) {
  AddModelOptions(command, options);
  command.add_option("--adapters", options.adapters,
                     "folder whose sub-folders are PEFT adapters; also the jail of loads by HTTP");
  command.add_option("--adapters-root", options.adapters_roots,
                     "a further folder that links of adapters may lead into, a hub's cache for "
                     "example; may be repeated");
  command.add_option("--model-name", options.model_name,
                     "the base model's name for clients [the folder's name]");
  command.add_option("--sequences-max", options.sequences_max, "sequences in one batch")
      ->capture_default_str();
  command.add_option("--page-tokens", options.page_tokens, "tokens per page of the KV pool")
      ->capture_default_str();
  command
      .add_option("--context-tokens-max", options.context_tokens_max,
                  "prompt and output of one request; 0: the model's own limit")
      ->capture_default_str();
  command
      .add_option("--pool-gib,--kv-gib", options.pool_gib,
                  "GiB of the page pool, of KV and adapters; 0: what can be used, within half of "
                  "free memory (a GPU's: all but 3 GiB)")
      ->capture_default_str();
  AddAdapterOptions(command, options);
  command.add_option("--requests-max", options.requests_max, "requests in flight")
      ->capture_default_str();
  command
      .add_option("--prefix-cache", options.prefix_cache,
                  "share pages among requests of one adapter and tenant with equal beginnings")
      ->capture_default_str();
  command.add_option("--registry", options.registry,
                     "SQLite file that remembers loaded adapters across restarts");
  command.add_option("--log-level", options.log_level, "debug, info, warn, error or off")
      ->capture_default_str();
}

Result<std::optional<DType>> ParseServingDType(const std::string& text) {
  if (text == "auto") return std::optional<DType>();
  if (text == "fp32") return std::optional<DType>(DType::kF32);
  if (text == "bf16") return std::optional<DType>(DType::kBF16);
  if (text == "fp16") return std::optional<DType>(DType::kF16);
  return InvalidArgumentError("unknown dtype '" + text + "'; use auto, bf16, fp16 or fp32");
}

Result<std::unique_ptr<LoadedModel>> LoadModel(const RuntimeOptions& options, bool quiet) {
  if (options.model.empty()) {
    return InvalidArgumentError("which model? --model DIR, an HF folder (demo/base is one)");
  }
  ASSIGN_OR_RETURN(std::unique_ptr<LoadedModel> model, PrepareModel(options));
  ASSIGN_OR_RETURN(model->config, LoadModelConfig(options.model));
  ASSIGN_OR_RETURN(const std::optional<DType> asked, ParseServingDType(options.dtype));
  model->name = options.model_name;
  if (model->name.empty()) {
    model->name = std::filesystem::weakly_canonical(options.model).filename().string();
  }
  ProgressBar bar("loading " + model->name, quiet);
  ASSIGN_OR_RETURN(
      model->weights,
      LoadWeights(options.model, model->config, ServingDType(model->config, asked, model->device),
                  model->stream, [&](int64_t done, int64_t total) { bar.Update(done, total); }));
  return model;
}

Result<std::unique_ptr<LoadedModel>> RandomModel(const RuntimeOptions& options,
                                                 const std::string& config_path, bool quiet) {
  ASSIGN_OR_RETURN(std::unique_ptr<LoadedModel> model, PrepareModel(options));
  ASSIGN_OR_RETURN(const Json json, ParseJsonFile(config_path));
  ASSIGN_OR_RETURN(model->config, ParseModelConfig(json));
  ASSIGN_OR_RETURN(const std::optional<DType> asked, ParseServingDType(options.dtype));
  model->name = options.model_name.empty() ? "random" : options.model_name;
  ProgressBar bar("drawing random weights", quiet);
  model->weights =
      RandomWeights(model->config, asked.value_or(DType::kBF16), /*seed=*/1, model->stream,
                    [&](int64_t done, int64_t total) { bar.Update(done, total); });
  return model;
}

Status Runtime::UseBackend(const MakeBackend& make_backend) {
  if (make_backend) {
    ASSIGN_OR_RETURN(backend_, make_backend(*host_store_));
    return OkStatus();
  }
  std::vector<std::string> roots = options_.adapters_roots;
  if (!options_.adapters.empty()) roots.insert(roots.begin(), options_.adapters);
  backend_ = std::make_unique<LoraAdapterBackend>(model_->config, model_->weights.dtype,
                                                  *host_store_, FileJail(std::move(roots)));
  return OkStatus();
}

Result<std::unique_ptr<Runtime>> Runtime::Create(const RuntimeOptions& options, LoadedModel& model,
                                                 bool lora, const MakeBackend& make_backend) {
  std::unique_ptr<Runtime> runtime(new Runtime);
  const DType kv = KvDType(model.weights.dtype, model.device);
  const int32_t page_tokens =
      lora ? PageTokens(model.config, model.weights.dtype, kv, options.page_tokens)
           : options.page_tokens;
  const KvLayout layout = MakeKvLayout(model.config, page_tokens, kv);
  ExecutorLimits limits;
  limits.sequences_max = options.sequences_max;
  limits.step_tokens_max = std::max(options.step_tokens_max, options.sequences_max);
  limits.context_tokens_max = ContextTokensMax(options, model.config);
  limits.page_tokens = page_tokens;
  limits.page_bytes = layout.PageBytes();
  limits.vocab_size = model.config.vocab_size;
  limits.runs_ahead = !model.device.is_cpu();
  limits.adapters_max = lora ? options.adapters_max : 0;
  runtime->options_ = options;
  runtime->model_ = &model;
  TransformerLimits transformer_limits;
  transformer_limits.step_tokens_max = limits.step_tokens_max;
  transformer_limits.logits_rows_max = std::max(limits.sequences_max, 64);
  transformer_limits.sequences_max = limits.sequences_max;
  transformer_limits.context_tokens_max = limits.context_tokens_max;
  transformer_limits.lora_beside = options.lora_kernel != "after";
  if (lora && options.lora_kernel == "bmm") transformer_limits.padded_rank_max = kLoraRankMax;
  int64_t promised_bytes = PaddedLoraBytes(model.config, model.weights.dtype, transformer_limits);
  if (lora && options.merge == "auto") {
    RETURN_IF_ERROR(runtime->MakeMergedWeights());
    // The CPU's pages are taken when they are first written.
    if (model.device.is_cpu()) promised_bytes += MergedWeights::BytesFor(model.weights);
  }
  limits.num_pages = NumPages(options, model, layout, limits, promised_bytes);
  RETURN_IF_ERROR(CheckPool(options, limits));
  runtime->pool_ = std::make_unique<KvPool>(layout, limits.num_pages, model.device);
  runtime->transformer_ = std::make_unique<Transformer>(
      model.config, model.weights, *runtime->pool_, transformer_limits, model.stream);
  runtime->loras_ = std::make_unique<LoraStore>(model.config, limits.adapters_max, model.device);
  RETURN_IF_ERROR(runtime->MakeHostStore(lora));
  RETURN_IF_ERROR(runtime->UseBackend(make_backend));
  runtime->loader_ = std::make_unique<PagedLoader>(
      model.config, *runtime->backend_, *runtime->pool_, *runtime->loras_, model.device,
      runtime->metrics_, CopiesAtOnce(*ParseColdStart(options.cold_start)));
  RETURN_IF_ERROR(runtime->MakeExecutor(limits, model, lora));
  runtime->adapter_table_ = std::make_unique<AdapterTable>(lora ? options.adapters_listed_max : 0);
  ASSIGN_OR_RETURN(runtime->registry_, OpenRegistry(options.registry, runtime->metrics_));
  runtime->catalog_ = std::make_unique<EngineAdapterCatalog>(
      *runtime->adapter_table_, *runtime->backend_, *runtime->registry_,
      AdapterFolders(options.adapters, options.adapters_roots), model.name);
  runtime->loader_->SetOnRead(
      [catalog = runtime->catalog_.get()](const std::string& key, const AdapterFacts& facts) {
        catalog->OnRead(key, facts);
      });
  runtime->engine_ = std::make_unique<Engine>(
      *runtime->executor_, *runtime->adapter_table_, *runtime->loader_, SteadyClock::Get(),
      runtime->metrics_, EngineOptionsOf(options, limits, model, *runtime->catalog_));
  return runtime;
}

// Worker processes read adapters where it keeps them.
Status Runtime::MakeHostStore(bool lora) {
  const int64_t bytes_max = lora ? HostBytes(options_) : 0;
  SharedMemory shared;
  if (lora && CpuAssistOf(options_) == "process") {
    ASSIGN_OR_RETURN(shared, SharedMemory::Create(HostStore::SharedBytes(bytes_max)));
  }
  host_store_ = std::make_unique<HostStore>(bytes_max, metrics_, model_->device, std::move(shared));
  return OkStatus();
}

Status Runtime::MakeExecutor(const ExecutorLimits& limits, LoadedModel& model, bool lora) {
  const std::string where = CpuAssistOf(options_);
  if (lora && where != "off") {
    CpuAssistOptions assist;
    assist.num_workers = ChooseAssistWorkers(options_.cpu_assist_workers);
    if (where == "process") assist.command = AssistWorkerCommand();
    ASSIGN_OR_RETURN(
        assist_, CpuAssist::Create(assist, model.config, model.weights.dtype,
                                   limits.step_tokens_max, *host_store_, model.device, metrics_));
    const AssistCost& cost = assist_->profile().Of(LoraModule::kQ, 64);
    LOG_INFO(
        "CPU assist: {} workers ({}); rank 64 on q, k and v costs one of them {:.0f} us and "
        "{:.1f} us a row",
        assist.num_workers, where, cost.fixed_us, cost.row_us);
  }
  executor_ = std::make_unique<ModelExecutor>(
      *transformer_, lora ? loras_.get() : nullptr, limits, model.stream,
      ExecutorParts{
          .arrivals = &loader_->arrivals(), .assist = assist_.get(), .merged = merged_.get()});
  return OkStatus();
}

Status Runtime::MakeMergedWeights() {
  const int64_t bytes = MergedWeights::BytesFor(model_->weights);
  const int64_t free_bytes = FreeMemoryBytes(model_->device);
  if (bytes > free_bytes) {
    return ResourceExhaustedError("--merge auto needs " + std::to_string(bytes >> 20) +
                                  " MiB for the projections' second copy, " +
                                  std::to_string(free_bytes >> 20) +
                                  " are free; start with --merge off");
  }
  merged_ = std::make_unique<MergedWeights>(model_->config, model_->weights);
  LOG_INFO("merge: {} MiB for weights that an adapter is merged into", bytes >> 20);
  return OkStatus();
}

Status Runtime::LoadAdapters() {
  ASSIGN_OR_RETURN(const auto priorities,
                   ParseAdapterPriorities(options_.priorities, options_.pins));
  if (options_.adapters.empty()) {
    if (priorities.empty()) return OkStatus();
    const auto& [name, priority] = *priorities.begin();
    return InvalidArgumentError(PriorityFlag(name, priority) +
                                ": there are no adapters; name their folder with --adapters DIR");
  }
  catalog_->SetPriorities(priorities);
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  ASSIGN_OR_RETURN(const auto restored, catalog_->RestoreFromRegistry());
  ASSIGN_OR_RETURN(const auto found, catalog_->LoadFolder(ToBytes(options_.read_at_start_gib)));
  LOG_INFO("adapters: {} of the registry, {} read, {} listed, {} refused, in {:.3f} s",
           restored.num_loaded, found.num_loaded, found.num_listed,
           restored.num_skipped + found.num_skipped,
           NsToSeconds(SteadyClock::Get().NowNs() - begin_ns));
  for (const auto& [name, priority] : priorities) {
    if (catalog_->Find(name).ok()) continue;
    return NoSuchAdapter(*catalog_, name).WithContext(PriorityFlag(name, priority));
  }
  RETURN_IF_ERROR(ReadPins());
  if (*ParseColdStart(options_.cold_start) != ColdStart::kCached) return OkStatus();
  std::vector<std::string> keys;
  for (const AdapterInfo& info : catalog_->List()) keys.push_back(info.key());
  return engine_->PinAdapters(keys).WithContext("--cold-start cached");
}

Status Runtime::ReadPins() {
  for (const std::string& name : options_.pins) {
    ASSIGN_OR_RETURN(const AdapterInfo info, catalog_->Find(name));
    ASSIGN_OR_RETURN(const AdapterFacts facts, backend_->Read(info.path));
    if (info.hash.empty()) catalog_->OnRead(info.unread_key, facts);
    if (!host_store_->Has(facts.hash)) {
      return ResourceExhaustedError("--pin " + name + ": its " + std::to_string(facts.bytes) +
                                    " bytes find no room in the host's memory beside the other " +
                                    "adapters that stay; start with more --host-gib");
    }
  }
  return OkStatus();
}

Status Runtime::PinSynthetic(std::vector<std::pair<std::string, LoraWeights>> adapters) {
  std::vector<std::string> hashes;
  for (auto& [hash, weights] : adapters) {
    HostAdapter adapter = DescribeHostAdapter(weights, model_->config, hash, "");
    const HostStore::Held held = host_store_->Put(std::move(adapter), std::move(weights));
    if (!host_store_->Has(hash)) {
      return ResourceExhaustedError("the adapters do not fit into --host-gib");
    }
    RETURN_IF_ERROR(adapter_table_->Publish({.path = hash, .hash = hash, .key = hash}));
    hashes.push_back(hash);
  }
  return engine_->PinAdapters(hashes);
}

Status Runtime::ListSynthetic(const std::vector<std::string>& hashes) {
  for (const std::string& hash : hashes) {
    RETURN_IF_ERROR(adapter_table_->Publish({.path = hash, .hash = hash, .key = hash}));
  }
  if (*ParseColdStart(options_.cold_start) != ColdStart::kCached) return OkStatus();
  return engine_->PinAdapters(hashes);
}

// Adapters that were not read yet may have any rank: the usual ones are recorded for.
void Runtime::RecordGraphs(bool quiet) {
  if (model_->device.is_cpu()) return;
  constexpr int32_t kUsualRankMax = 64;
  int32_t rank_max = 0;
  for (const AdapterInfo& info : catalog_->List()) {
    rank_max = std::max(rank_max, info.hash.empty() ? kUsualRankMax : info.rank_max);
  }
  ProgressBar bar("recording decode graphs", quiet);
  executor_->RecordGraphs([&bar](int64_t done, int64_t total) { bar.Update(done, total); },
                          rank_max);
}

}  // namespace graft
