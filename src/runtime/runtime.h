// Runtime: one model, its adapters and the engine, wired together; what serve, generate and bench
// share. Made and destroyed on the main thread; the engine runs on its own.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "cache/adapter_table.h"
#include "engine/adapter_catalog.h"
#include "engine/engine.h"
#include "executor/adapter_backend.h"
#include "executor/cpu_assist.h"
#include "executor/host_store.h"
#include "executor/model_executor.h"
#include "executor/paged_loader.h"
#include "model/kv_pool.h"
#include "model/lora_store.h"
#include "model/merged_weights.h"
#include "model/transformer.h"
#include "model/weights.h"
#include "registry/adapter_registry.h"
#include "tensor/cuda_memory.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace graft {

struct RuntimeOptions {
  std::string model;                        // HF folder
  std::string adapters;                     // folder of PEFT folders; "" for none
  std::vector<std::string> adapters_roots;  // further folders that links of adapters may lead into
  std::string model_name;                   // "" for the folder's name
  std::string device = "auto";
  std::string dtype = "auto";  // auto, bf16, fp16, fp32
  std::string registry;        // SQLite file; "" to forget at exit
  int threads = 0;             // of the kernels; 0: one per core
  int sequences_max = 256;
  int step_tokens_max = 512;
  int prefill_chunk_max = 0;  // rows of one prompt in a step; 0: step_tokens_max
  int page_tokens = 16;
  int context_tokens_max = 0;   // 0: the model's own
  double pool_gib = 0.0;        // of KV and adapters; 0: what can be used of a share of free memory
  std::string pool = "shared";  // or static: adapters and KV each have their own pages
  double adapter_share = 0.25;  // of a static pool
  int adapters_max = 1024;      // on the device at once
  int adapters_listed_max = 65536;
  double host_gib = -1.0;        // of adapters in the host's memory; below 0: a share of it
  double read_at_start_gib = 1;  // adapters folders up to this size are read and checked at start
  std::string cold_start = "auto";
  std::string cpu_assist;      // off, thread or process; "": thread for cpu-assist, else off
  int cpu_assist_workers = 0;  // see ChooseAssistWorkers
  int turn_ms = 500;
  // Or, to compare with, after: never beside the products; bmm: over padded copies.
  std::string lora_kernel = "segmented";
  std::string merge = "off";            // or auto: an adapter that has the requests for itself
  int merge_after_steps = 0;            // 0: what the device's merge is worth
  std::vector<std::string> pins;        // adapters that stay in the host's memory
  std::vector<std::string> priorities;  // NAME=N: adapters that stay there longer
  int requests_max = 4096;              // in flight, waiting ones included
  bool prefix_cache = true;
  bool run_ahead = true;
  std::string log_level = "info";
};

// Workers of the CPU assist, as many as asked for; 0: by the machine's cores. And what starts one
// as a process.
int ChooseAssistWorkers(int asked);
std::vector<std::string> AssistWorkerCommand();

// Adds the options above to a subcommand.
void AddRuntimeOptions(CLI::App& command, RuntimeOptions& options);
// Those of them alone that LoadModel goes by; of these, the two that any op needs.
void AddModelOptions(CLI::App& command, RuntimeOptions& options);
void AddDeviceOptions(CLI::App& command, std::string& device, int& threads);
// Those of them alone that say how a step is computed.
void AddStepOptions(CLI::App& command, RuntimeOptions& options);

// The parts that bench builds more than once from one set of weights.
struct LoadedModel {
  std::string name;
  Device device;
  ModelConfig config;
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<OwnedStream> owned_stream;
  Stream stream;  // owned_stream's
  ModelWeights weights;
};

// "fp32", "bf16" or "fp16"; nothing for "auto".
Result<std::optional<DType>> ParseServingDType(const std::string& text);

// Starts the threads and reads the weights of options.model.
Result<std::unique_ptr<LoadedModel>> LoadModel(const RuntimeOptions& options, bool quiet);
// The same with random weights for the shape in `config_path` (an HF config.json).
Result<std::unique_ptr<LoadedModel>> RandomModel(const RuntimeOptions& options,
                                                 const std::string& config_path, bool quiet);

class Runtime {
 public:
  // What adapters come from, if not from folders.
  using MakeBackend =
      std::function<Result<std::unique_ptr<LoraAdapterBackend>>(HostStore& host_store)>;

  // Without `lora` the executor has no adapter slots at all: the baseline that bench compares with.
  // Borrows `model`.
  static Result<std::unique_ptr<Runtime>> Create(const RuntimeOptions& options, LoadedModel& model,
                                                 bool lora, const MakeBackend& make_backend = {});

  // Lists every adapter of options.adapters and, before them, those that the registry remembers;
  // reads them if they are few, and makes them resident for a cold start of `cached`.
  Status LoadAdapters();
  // Makes adapters known by hash without folders, and resident for good. Before the engine starts.
  Status PinSynthetic(std::vector<std::pair<std::string, LoraWeights>> adapters);
  // Makes what a backend of one's own knows by these hashes known to requests; resident for good,
  // if the cold start is `cached`. Before the engine starts.
  Status ListSynthetic(const std::vector<std::string>& hashes);
  // On a GPU: records decode steps for the adapters loaded so far. Before the engine starts.
  void RecordGraphs(bool quiet);

  Engine& engine() { return *engine_; }
  // For benches that drive it by themselves, beside an engine that was not started.
  ModelExecutor& executor() { return *executor_; }
  EngineAdapterCatalog& catalog() { return *catalog_; }
  LoraStore& loras() { return *loras_; }
  const HostStore& host_store() const { return *host_store_; }
  Metrics& metrics() { return metrics_; }
  const ExecutorLimits& limits() const { return executor_->limits(); }
  int64_t pool_bytes() const { return pool_->bytes(); }

 private:
  Runtime() = default;
  Status UseBackend(const MakeBackend& make_backend);
  Status MakeHostStore(bool lora);
  Status MakeExecutor(const ExecutorLimits& limits, LoadedModel& model, bool lora);
  // Room for merged weights, if the options ask for it.
  Status MakeMergedWeights();
  Status ReadPins();

  RuntimeOptions options_;
  const LoadedModel* model_ = nullptr;
  Metrics metrics_;
  std::unique_ptr<MergedWeights> merged_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<LoraStore> loras_;
  std::unique_ptr<HostStore> host_store_;
  std::unique_ptr<LoraAdapterBackend> backend_;
  std::unique_ptr<PagedLoader> loader_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<CpuAssist> assist_;  // of a cold start that may use it
  std::unique_ptr<ModelExecutor> executor_;
  std::unique_ptr<AdapterTable> adapter_table_;
  std::unique_ptr<AdapterRegistry> registry_;
  std::unique_ptr<EngineAdapterCatalog> catalog_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace graft
