#include "cli/runtime.h"

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "cli/config_file.h"
#include "cli/progress.h"

namespace graft {
namespace {

// The pool's share of free memory, where nobody said: a machine has other programs; a GPU is ours,
// but for the adapters and the activations.
double PoolShare(const Device& device) { return device.is_cpu() ? 0.5 : 0.8; }

Status CheckPositive(const char* flag, int64_t value) {
  if (value > 0) return OkStatus();
  return InvalidArgumentError(std::string("--") + flag + " must be 1 or more, got " +
                              std::to_string(value));
}

Status CheckOptions(const RuntimeOptions& options) {
  RETURN_IF_ERROR(CheckPositive("sequences-max", options.sequences_max));
  RETURN_IF_ERROR(CheckPositive("step-tokens-max", options.step_tokens_max));
  RETURN_IF_ERROR(CheckPositive("page-tokens", options.page_tokens));
  RETURN_IF_ERROR(CheckPositive("adapters-max", options.adapters_max));
  RETURN_IF_ERROR(CheckPositive("requests-max", options.requests_max));
  if (options.context_tokens_max < 0) {
    return InvalidArgumentError("--context-tokens-max must be 0 (the model's own) or more");
  }
  if (!(options.kv_gib >= 0.0 && options.kv_gib < 1e6)) {
    return InvalidArgumentError("--kv-gib must be 0 (chosen for you) or more");
  }
  return OkStatus();
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

// Enough for every sequence at full context, within a share of what the device has left.
Result<int32_t> NumPages(const RuntimeOptions& options, const KvLayout& layout,
                         const Device& device, int32_t context_tokens_max) {
  const int64_t pages_per_context =
      (context_tokens_max + options.page_tokens - 1) / options.page_tokens;
  int64_t num_pages = pages_per_context * options.sequences_max;
  if (options.kv_gib > 0.0) {
    num_pages = static_cast<int64_t>(options.kv_gib * (int64_t{1} << 30)) / layout.PageBytes();
  } else {
    const double free_bytes = static_cast<double>(FreeMemoryBytes(device)) * PoolShare(device);
    num_pages = std::min(num_pages, static_cast<int64_t>(free_bytes) / layout.PageBytes());
  }
  if (num_pages < pages_per_context) {
    return ResourceExhaustedError(
        "the page pool would hold " + std::to_string(num_pages) + " pages of " +
        std::to_string(options.page_tokens) + " tokens, one full context needs " +
        std::to_string(pages_per_context) + "; raise --kv-gib or lower --context-tokens-max (now " +
        std::to_string(context_tokens_max) + ")");
  }
  return static_cast<int32_t>(std::min<int64_t>(num_pages, 1 << 24));
}

}  // namespace

void AddRuntimeOptions(CLI::App& command, RuntimeOptions& options) {
  command.add_option("--model", options.model, "HF model folder (config.json, *.safetensors)");
  command.add_option("--adapters", options.adapters,
                     "folder whose sub-folders are PEFT adapters; also the jail of loads by HTTP");
  command.add_option("--model-name", options.model_name,
                     "the base model's name for clients [the folder's name]");
  command.add_option("--device", options.device, "auto, cpu or cuda:N")->capture_default_str();
  command
      .add_option("--dtype", options.dtype, "auto (the checkpoint's), bf16, fp32, or fp16 on a GPU")
      ->capture_default_str();
  command.add_option("--threads", options.threads, "kernel threads; 0: one per core")
      ->capture_default_str();
  command.add_option("--sequences-max", options.sequences_max, "sequences in one batch")
      ->capture_default_str();
  command
      .add_option("--step-tokens-max", options.step_tokens_max,
                  "token rows of one step; long prompts are cut into chunks of it")
      ->capture_default_str();
  command.add_option("--page-tokens", options.page_tokens, "tokens per page of the KV pool")
      ->capture_default_str();
  command
      .add_option("--context-tokens-max", options.context_tokens_max,
                  "prompt and output of one request; 0: the model's own limit")
      ->capture_default_str();
  command
      .add_option(
          "--kv-gib", options.kv_gib,
          "GiB of the page pool; 0: full contexts, within half of free memory (a GPU's: 80 %)")
      ->capture_default_str();
  command.add_option("--adapters-max", options.adapters_max, "adapters in memory")
      ->capture_default_str();
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

Result<std::unique_ptr<Runtime>> Runtime::Create(const RuntimeOptions& options, LoadedModel& model,
                                                 bool lora) {
  std::unique_ptr<Runtime> runtime(new Runtime);
  const KvLayout layout =
      MakeKvLayout(model.config, options.page_tokens, KvDType(model.weights.dtype, model.device));
  ExecutorLimits limits;
  limits.sequences_max = options.sequences_max;
  limits.step_tokens_max = std::max(options.step_tokens_max, options.sequences_max);
  limits.context_tokens_max = ContextTokensMax(options, model.config);
  ASSIGN_OR_RETURN(limits.num_pages,
                   NumPages(options, layout, model.device, limits.context_tokens_max));
  limits.page_tokens = options.page_tokens;
  limits.vocab_size = model.config.vocab_size;
  limits.adapters_max = lora ? options.adapters_max : 0;

  runtime->device_ = model.device;
  runtime->adapters_dir_ = options.adapters;
  runtime->kv_pool_ = std::make_unique<KvPool>(layout, limits.num_pages, model.device);
  TransformerLimits transformer_limits;
  transformer_limits.step_tokens_max = limits.step_tokens_max;
  transformer_limits.logits_rows_max = std::max(limits.sequences_max, 64);
  transformer_limits.sequences_max = limits.sequences_max;
  transformer_limits.context_tokens_max = limits.context_tokens_max;
  runtime->transformer_ = std::make_unique<Transformer>(
      model.config, model.weights, *runtime->kv_pool_, transformer_limits, model.stream);
  runtime->loras_ = std::make_unique<LoraStore>(model.config, limits.adapters_max, model.device);
  runtime->executor_ = std::make_unique<ModelExecutor>(
      *runtime->transformer_, lora ? runtime->loras_.get() : nullptr, limits, model.stream);
  runtime->backend_ =
      std::make_unique<LoraAdapterBackend>(model.config, model.weights.dtype, *runtime->loras_);
  runtime->adapter_table_ = std::make_unique<AdapterTable>(
      limits.adapters_max,
      [backend = runtime->backend_.get()](int32_t slot) { backend->Free(slot); });
  ASSIGN_OR_RETURN(runtime->registry_,
                   AdapterRegistry::Open(options.registry.empty() ? ":memory:" : options.registry));
  runtime->catalog_ =
      std::make_unique<EngineAdapterCatalog>(*runtime->adapter_table_, *runtime->backend_,
                                             *runtime->registry_, options.adapters, model.name);
  EngineOptions engine_options;
  engine_options.requests_max = options.requests_max;
  engine_options.prefix_cache = options.prefix_cache;
  engine_options.eos_token_ids = model.config.eos_token_ids;
  engine_options.adapter_label = [catalog = runtime->catalog_.get()](const std::string& hash) {
    return hash.empty() ? std::string("base") : catalog->NameOf(hash);
  };
  runtime->engine_ =
      std::make_unique<Engine>(*runtime->executor_, *runtime->adapter_table_, SteadyClock::Get(),
                               runtime->metrics_, std::move(engine_options));
  return runtime;
}

Status Runtime::LoadAdapters() {
  if (adapters_dir_.empty()) return OkStatus();
  RETURN_IF_ERROR(catalog_->RestoreFromRegistry().status());
  RETURN_IF_ERROR(catalog_->LoadFolder().status());
  return OkStatus();
}

void Runtime::RecordGraphs(bool quiet) {
  if (device_.is_cpu()) return;
  ProgressBar bar("recording decode graphs", quiet);
  executor_->RecordGraphs([&bar](int64_t done, int64_t total) { bar.Update(done, total); });
}

}  // namespace graft
