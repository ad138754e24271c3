// Runtime: one model, its adapters and the engine, wired together; what serve, generate and bench
// share. Made and destroyed on the main thread; the engine runs on its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adapters/host_store.h"
#include "adapters/paged_loader.h"
#include "adapters/peft_backend.h"
#include "assist/cpu_assist.h"
#include "base/device_turns.h"
#include "base/hash_memory.h"
#include "base/metrics.h"
#include "base/turns.h"
#include "base/work_crew.h"
#include "cache/content_table.h"
#include "engine/engine.h"
#include "engine/folder_catalog.h"
#include "executor/model_executor.h"
#include "grammar/grammar_store.h"
#include "layers/lora_store.h"
#include "model/kv_pool.h"
#include "model/transformer.h"
#include "model/weights.h"
#include "registry/sqlite_registry.h"
#include "runtime/memory_sum.h"
#include "runtime/rank_processes.h"
#include "runtime/read_ahead.h"
#include "runtime/runtime_options.h"
#include "runtime/server_memory.h"
#include "tensor/cuda_memory.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace graft {

// The device asked for. Where there is a GPU and auto takes the CPU, the log says why.
Result<Device> PickDevice(const DeviceChoice& choice);
// As PickDevice, for one of several ranks.
Result<Device> PickRankDevice(const DeviceChoice& choice, const Shard& shard);

// The parts that bench builds more than once from one set of weights.
struct LoadedModel {
  std::string name;
  Device device;
  ModelConfig config;                      // the whole model's
  Shard shard;                             // what of it this process has
  ModelConfig rank_config;                 // ShardConfig's
  RankProcesses* ranks = nullptr;          // the others, on rank 0 of several
  std::unique_ptr<RankExchange> exchange;  // with them; null: there is one rank
  Turns* turns = nullptr;                  // of the threads, where training works beside the steps
  DeviceTurns* device_turns = nullptr;     // of the GPU, beside training
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<OwnedStream> owned_stream;
  Stream stream;                       // owned_stream's
  std::optional<MemoryBudget> budget;  // of all that is built on it
  ModelWeights weights;

  ServedShape shape() const { return {rank_config, weights.types, device, shard.num_ranks}; }
};

// Starts the threads and reads the weights of options.model, after `check` has found memory for
// everything that will be done with them; {} checks for one server with LoRA. If there are other
// `ranks`, it reads rank 0's slice.
Result<std::unique_ptr<LoadedModel>> LoadModel(const RuntimeOptions& options, bool quiet,
                                               const CheckMemory& check = {},
                                               RankProcesses* ranks = nullptr);
// The same with random weights for the shape in `config_path` (an HF config.json).
Result<std::unique_ptr<LoadedModel>> RandomModel(const RuntimeOptions& options,
                                                 const std::string& config_path, bool quiet,
                                                 const CheckMemory& check = {},
                                                 RankProcesses* ranks = nullptr);
// Another rank's slice of what rank 0 loads, which has found room for it: of options.model, or of
// random weights where `shape` is a config_path.
Result<std::unique_ptr<LoadedModel>> LoadShard(const RuntimeOptions& options,
                                               const std::string& shape,
                                               Communicator& communicator);
// Rank 0 of so many, which computes as if the others were there (MakeModelledExchange); for bench.
Result<std::unique_ptr<LoadedModel>> LoadRankAlone(const RuntimeOptions& options,
                                                   const std::string& shape, int32_t num_ranks,
                                                   const LinkModel& link, const CheckMemory& check);
// The whole model's shape, from either.
Result<ModelConfig> ReadModelShape(const RuntimeOptions& options, const std::string& shape);
// Logs what was not taken of the generation_config.json in a model's folder.
void WarnOfIgnored(const std::string& folder, const ModelConfig& config);

class Runtime {
 public:
  // Makes the backend of adapters that do not come from folders.
  using MakeBackend = std::function<Result<std::unique_ptr<PeftBackend>>(HostStore& host_store)>;

  // Without `lora` the executor has no adapter slots at all: the baseline that bench compares with.
  // Borrows `model`.
  static Result<std::unique_ptr<Runtime>> Create(const RuntimeOptions& options, LoadedModel& model,
                                                 bool lora, const MakeBackend& make_backend = {});

  // Lists every adapter of options.adapters and, before them, those that the registry remembers;
  // reads them if they are few, and makes them resident for a cold start of `cached`.
  Status LoadAdapters();
  // Makes adapters known by hash without folders, and resident for good. Before the engine starts.
  Status PinSynthetic(std::vector<std::pair<std::string, LoraWeights>> adapters);
  // Requests may ask for the contents that a MakeBackend's backend knows by these hashes; they stay
  // resident if the cold start is `cached`. To be called before the engine starts.
  Status ListSynthetic(const std::vector<std::string>& hashes);
  // On a GPU: records decode steps for the adapters loaded so far. Before the engine starts.
  void RecordGraphs(bool quiet);

  Engine& engine() { return *engine_; }
  // For benches that drive it by themselves, beside an engine that was not started.
  ModelExecutor& executor() { return *executor_; }
  FolderCatalog& catalog() { return *catalog_; }
  LoraStore& loras() { return *loras_; }
  // See MakeArithmeticId.
  std::string arithmetic_id() const;
  const HostStore& host_store() const { return *host_store_; }
  Metrics& metrics() { return metrics_; }
  const ExecutorLimits& limits() const { return executor_->limits(); }
  int64_t pool_bytes() const { return pool_->bytes(); }

 private:
  Runtime() = default;
  Status UseBackend(const MakeBackend& make_backend);
  Status PlanMemory(bool lora, ExecutorLimits* limits);
  Status MakeHostStore(bool lora);
  AdapterSlicer MakeSlicer() const;
  void PlanReading(bool lora);
  void MakeLoader();
  Status MakeExecutor(const ExecutorLimits& limits, LoadedModel& model, bool lora);
  Status ReadPins();
  void BeginReadAhead();

  RuntimeOptions options_;
  const LoadedModel* model_ = nullptr;
  int64_t host_bytes_ = 0;  // of adapters in the host's memory, at most
  Metrics metrics_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<LoraStore> loras_;
  FetchLimits fetch_limits_;
  std::unique_ptr<WorkCrew> crew_;           // helps to read adapters
  std::unique_ptr<HashMemory> hash_memory_;  // null: nothing is remembered
  std::unique_ptr<HostStore> host_store_;
  std::unique_ptr<RankLink> rank_link_;  // where other ranks share the model
  std::unique_ptr<PeftBackend> backend_;
  std::unique_ptr<PagedLoader> loader_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<CpuAssist> assist_;  // of a cold start that may use it
  std::unique_ptr<ModelExecutor> executor_;
  std::unique_ptr<ContentTable> contents_;
  std::unique_ptr<SqliteRegistry> registry_;
  std::unique_ptr<FolderCatalog> catalog_;
  std::unique_ptr<GrammarStore> grammars_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<ReadAhead> read_ahead_;
};

}  // namespace graft
