#include "runtime/runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/json.h"
#include "base/log.h"
#include "executor/arithmetic_id.h"
#include "kernels/attention/attention.h"
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

std::string GibText(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f GiB", static_cast<double>(bytes) / (int64_t{1} << 30));
  return text;
}

// The least that the weights take; the rest, beside them, is little.
Status CheckWeightsFit(const std::string& what, const ModelConfig& config, DType dtype,
                       const Device& device) {
  const int64_t bytes = config.num_parameters() * DTypeBytes(dtype);
  const int64_t free_bytes = FreeMemoryBytes(device);
  if (bytes <= free_bytes) return OkStatus();
  return ResourceExhaustedError(what + ": weights of " + GibText(bytes) + " in " +
                                std::string(DTypeName(dtype)) + " do not fit into the " +
                                GibText(free_bytes) + " that are free on " + device.ToString());
}

// Device, threads and stream; everything of a LoadedModel but config and weights.
Result<std::unique_ptr<LoadedModel>> PrepareModel(const RuntimeOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  auto model = std::make_unique<LoadedModel>();
  ASSIGN_OR_RETURN(model->device, PickDevice(options.device));
  model->threads = std::make_unique<ThreadPool>(options.threads == 0 ? NumCpus() : options.threads);
  model->owned_stream = std::make_unique<OwnedStream>(model->device, model->threads.get());
  model->stream = model->owned_stream->get();
  return model;
}

void WarnAboutContext(const RuntimeOptions& options, const ModelConfig& config) {
  if (options.context_tokens_max <= config.context_tokens_max) return;
  LOG_WARN("--context-tokens-max {} is more than the model's own {}, which is served",
           options.context_tokens_max, config.context_tokens_max);
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

// The adapters' own pages in a static pool; 0 where they share it.
int32_t AdapterPages(const RuntimeOptions& options, const ExecutorLimits& limits) {
  if (options.pool != PoolKind::kStatic || limits.adapters_max == 0) return 0;
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

// A pool of a size that somebody asked for is taken whole, or as it fills.
Status CheckPoolFits(const RuntimeOptions& options, const Device& device, int64_t promised_bytes) {
  const int64_t bytes = ToBytes(options.pool_gib);
  const int64_t free_bytes = FreeMemoryBytes(device) - promised_bytes;
  if (bytes <= free_bytes) return OkStatus();
  return ResourceExhaustedError("a page pool of " + GibText(bytes) + " does not fit into the " +
                                GibText(free_bytes) + " that are free on " + device.ToString() +
                                "; ask for less, --pool-gib 0 takes what there is");
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

// Off where no step would ask for it.
CpuAssistPlace CpuAssistOf(const RuntimeOptions& options) {
  const bool must = options.cold_start == ColdStart::kCpuAssist;
  if (!must && options.cold_start != ColdStart::kAuto) return CpuAssistPlace::kOff;
  return options.cpu_assist.value_or(must ? CpuAssistPlace::kThread : CpuAssistPlace::kOff);
}

// The low-rank path costs a merge in 7 (rank 64) to 9 (rank 16) decode steps of an H200, in 70 of
// two CPU cores (docs/benchmarks.md): waiting for about as many loses at most as much again.
int32_t MergeAfterSteps(const RuntimeOptions& options, const Device& device) {
  if (options.merge_after_steps > 0) return options.merge_after_steps;
  return device.is_cpu() ? 64 : 8;
}

EngineOptions EngineOptionsOf(const RuntimeOptions& options, const ExecutorLimits& limits,
                              const LoadedModel& model, EngineAdapterCatalog& catalog) {
  const KvLayout layout =
      MakeKvLayout(model.config, limits.page_tokens, KvDType(model.weights.dtype, model.device));
  EngineOptions engine;
  engine.requests_max = options.requests_max;
  engine.prefill_chunk_max = options.prefill_chunk_max;
  engine.step_ns_max = int64_t{StepMsMax(options, model.device)} * 1'000'000;
  engine.prefix_cache = options.prefix_cache;
  engine.shares_drawn_pages = options.shares_drawn_pages || model.device.is_cpu();
  engine.tells_base_rows = AttentionTellsGivenRows(layout, model.device);
  engine.runs_ahead = options.run_ahead;
  engine.eos_token_ids = model.config.eos_token_ids;
  engine.cold_start = options.cold_start;
  engine.turn_ns = int64_t{options.turn_ms} * 1'000'000;
  if (options.merge == Merge::kAuto)
    engine.merge_after_steps = MergeAfterSteps(options, model.device);
  engine.adapter_pages = AdapterPages(options, limits);
  engine.adapter_label = [&catalog](const std::string& key) {
    return key.empty() ? std::string("base") : catalog.NameOf(key);
  };
  return engine;
}

}  // namespace

// A GPU multiplies with its weights fully busy from about 2,048 rows on; on an H200 these take
// about 50 ms for a model of 8 billion parameters.
int StepTokensMax(const RuntimeOptions& options, const Device& device) {
  if (options.step_tokens_max > 0) return options.step_tokens_max;
  return device.is_cpu() ? 512 : 2048;
}

int StepMsMax(const RuntimeOptions& options, const Device& device) {
  if (options.step_ms_max > 0) return options.step_ms_max;
  return device.is_cpu() ? 0 : 50;
}

int ChooseAssistWorkers(int asked) {
  constexpr int kOthers = 2;  // the engine's thread, and those that speak HTTP
  return asked == 0 ? std::clamp(NumCpus() - kOthers, 1, kHostFlagsMax) : asked;
}

std::vector<std::string> AssistWorkerCommand() {
  // A launcher that brings its own loader names itself: /proc/self/exe is that loader then.
  const char* launcher = std::getenv("GRAFT_LAUNCHER");
  return {launcher == nullptr ? "/proc/self/exe" : launcher, "assist-worker"};
}

Result<Device> PickDevice(const DeviceChoice& choice) {
  ASSIGN_OR_RETURN(const ChosenDevice chosen, ChooseDevice(choice, ListCudaCards()));
  if (!chosen.warning.empty()) LOG_WARN("{}", chosen.warning);
  return chosen.device;
}

Result<std::unique_ptr<LoadedModel>> LoadModel(const RuntimeOptions& options, bool quiet) {
  if (options.model.empty()) {
    return InvalidArgumentError("which model? --model DIR, an HF folder (demo/base is one)");
  }
  ASSIGN_OR_RETURN(std::unique_ptr<LoadedModel> model, PrepareModel(options));
  ASSIGN_OR_RETURN(model->config, LoadModelConfig(options.model));
  WarnAboutContext(options, model->config);
  model->name = options.model_name;
  if (model->name.empty()) {
    model->name = std::filesystem::weakly_canonical(options.model).filename().string();
  }
  const DType dtype = ServingDType(model->config, options.dtype, model->device);
  RETURN_IF_ERROR(CheckWeightsFit(options.model, model->config, dtype, model->device));
  ProgressBar bar("loading " + model->name, quiet);
  ASSIGN_OR_RETURN(model->weights,
                   LoadWeights(options.model, model->config, dtype, model->stream,
                               [&](int64_t done, int64_t total) { bar.Update(done, total); }));
  return model;
}

Result<std::unique_ptr<LoadedModel>> RandomModel(const RuntimeOptions& options,
                                                 const std::string& config_path, bool quiet) {
  ASSIGN_OR_RETURN(std::unique_ptr<LoadedModel> model, PrepareModel(options));
  ASSIGN_OR_RETURN(const Json json, ParseJsonFile(config_path));
  ASSIGN_OR_RETURN(model->config, ParseModelConfig(json));
  WarnAboutContext(options, model->config);
  model->name = options.model_name.empty() ? "random" : options.model_name;
  const DType dtype = options.dtype.value_or(DType::kBF16);
  RETURN_IF_ERROR(CheckWeightsFit(config_path, model->config, dtype, model->device));
  ProgressBar bar("drawing random weights", quiet);
  model->weights = RandomWeights(model->config, dtype, /*seed=*/1, model->stream,
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
  limits.step_tokens_max = std::max(StepTokensMax(options, model.device), options.sequences_max);
  limits.context_tokens_max = ContextTokensMax(options, model.config);
  limits.page_tokens = page_tokens;
  limits.page_bytes = layout.PageBytes();
  limits.vocab_size = model.config.vocab_size;
  limits.runs_ahead = !model.device.is_cpu();
  limits.adapters_max = lora ? options.adapters_max : 0;
  runtime->options_ = options;
  runtime->model_ = &model;
  const TransformerLimits transformer_limits = runtime->MakeTransformerLimits(limits, lora);
  int64_t promised_bytes = PaddedLoraBytes(model.config, model.weights.dtype, transformer_limits);
  if (lora && options.merge == Merge::kAuto) {
    RETURN_IF_ERROR(runtime->MakeMergedWeights());
    // The CPU's pages are taken when they are first written.
    if (model.device.is_cpu()) promised_bytes += MergedWeights::BytesFor(model.weights);
  }
  RETURN_IF_ERROR(CheckPoolFits(options, model.device, promised_bytes));
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
      runtime->metrics_, CopiesAtOnce(options.cold_start));
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

TransformerLimits Runtime::MakeTransformerLimits(const ExecutorLimits& limits, bool lora) const {
  TransformerLimits transformer;
  transformer.step_tokens_max = limits.step_tokens_max;
  transformer.logits_rows_max = std::max(limits.sequences_max, 64);
  transformer.sequences_max = limits.sequences_max;
  transformer.context_tokens_max = limits.context_tokens_max;
  transformer.lora_beside = options_.lora_kernel != LoraKernel::kAfter;
  if (lora && options_.lora_kernel == LoraKernel::kPadded) {
    transformer.padded_rank_max = kLoraRankMax;
  }
  return transformer;
}

// Worker processes read adapters where it keeps them.
Status Runtime::MakeHostStore(bool lora) {
  const int64_t bytes_max = lora ? HostBytes(options_) : 0;
  SharedMemory shared;
  if (lora && CpuAssistOf(options_) == CpuAssistPlace::kProcess) {
    ASSIGN_OR_RETURN(shared, SharedMemory::Create(HostStore::SharedBytes(bytes_max)));
  }
  host_store_ = std::make_unique<HostStore>(bytes_max, metrics_, model_->device, std::move(shared));
  return OkStatus();
}

Status Runtime::MakeExecutor(const ExecutorLimits& limits, LoadedModel& model, bool lora) {
  const CpuAssistPlace where = CpuAssistOf(options_);
  if (lora && where != CpuAssistPlace::kOff) {
    CpuAssistOptions assist;
    assist.num_workers = ChooseAssistWorkers(options_.cpu_assist_workers);
    if (where == CpuAssistPlace::kProcess) assist.command = AssistWorkerCommand();
    ASSIGN_OR_RETURN(
        assist_, CpuAssist::Create(assist, model.config, model.weights.dtype,
                                   limits.step_tokens_max, *host_store_, model.device, metrics_));
    const AssistCost& cost = assist_->profile().Of(LoraModule::kQ, 64);
    LOG_INFO(
        "CPU assist: {} workers ({}); rank 64 on q, k and v costs one of them {:.0f} us and "
        "{:.1f} us a row",
        assist.num_workers, WordOf(std::optional(where), kCpuAssistWords), cost.fixed_us,
        cost.row_us);
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
  if (options_.cold_start != ColdStart::kCached) return OkStatus();
  std::vector<std::string> keys;
  for (const AdapterInfo& info : catalog_->List()) keys.push_back(info.key());
  return engine_->PinAdapters(keys).WithContext("--cold-start cached");
}

std::string Runtime::arithmetic_id() const {
  return MakeArithmeticId(model_->device, {.weights = model_->weights.dtype,
                                           .kv = KvDType(model_->weights.dtype, model_->device),
                                           .page_tokens = limits().page_tokens,
                                           .merges = options_.merge == Merge::kAuto,
                                           .pads = options_.lora_kernel == LoraKernel::kPadded});
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
  if (options_.cold_start != ColdStart::kCached) return OkStatus();
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
