// The memory that a server takes: the terms of a sum, computed from its options and the model's
// shape before either the model or the server exists. Pure functions, except that they ask the
// machine. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "layers/gpu_exchange.h"
#include "layers/served_types.h"
#include "model/config.h"
#include "model/transformer_sizes.h"
#include "runtime/adapter_reading.h"
#include "runtime/memory_sum.h"
#include "runtime/runtime_options.h"
#include "step/executor.h"
#include "tensor/device.h"
#include "tensor/device_traits.h"

namespace graft {

// Which flags the sizes of a server come from.
struct SizeFlags {
  std::string rows = "--step-tokens-max";
  std::string sequences = "--sequences-max";
  std::string context = "--context-tokens-max";
  std::string adapters = "--adapters-max";
  std::string pool = "--pool-gib";
};

// The model that a server is for, as its config.json and the options tell it.
struct ServedShape {
  const ModelConfig& config;  // of several ranks, each one's: ShardConfig
  ServedTypes types;
  Device device;
  int32_t num_ranks = 1;
};

// A GPU's steps for the goal throughput, and those of a simulation.
inline constexpr int32_t kThroughputRows = 16384;
inline constexpr int64_t kThroughputNs = 1000 * kMsInNs;

// Rows of a step, and the bound on its time beside decoding sequences (0: none), where the options
// leave them to the device. weights_ns: WeightsReadingNs, or 0 where that is not known.
int32_t StepTokensMax(const RuntimeOptions& options, const Device& device);
int64_t StepNsMax(const RuntimeOptions& options, const Device& device, int64_t weights_ns);
// How long a card's memory takes for the weights at best; 0 on a CPU.
int64_t WeightsReadingNs(int64_t weights_bytes, const DeviceTraits& traits);
int32_t ContextTokensMax(const RuntimeOptions& options, const ModelConfig& config);

// All but num_pages.
ExecutorLimits ExecutorLimitsOf(const RuntimeOptions& options, const ServedShape& shape, bool lora);
TransformerLimits TransformerLimitsOf(const RuntimeOptions& options, const ExecutorLimits& limits);
// What the ranks of a model write for each other, on CPUs or on GPUs.
GpuExchangeLimits ExchangeLimitsOf(const RuntimeOptions& options, const ServedShape& shape);
KvLayout LayoutOf(const ServedShape& shape, const ExecutorLimits& limits);
int64_t PagesPerContext(const ExecutorLimits& limits);
Status CheckPage(const ExecutorLimits& limits);
// Whether a pool of so many pages holds one full context. kResourceExhausted.
Status CheckPool(const ExecutorLimits& limits, int64_t num_pages);

// What a process takes once: the weights, a GPU's driver, and where the weights are `drawn` at
// random, a GPU's, or made of codes, what making them takes beside them.
void AddWeights(const ServedShape& shape, bool drawn, MemorySum* sum);
// What the ranks exchange through; nothing for one rank.
void AddRanks(const RuntimeOptions& options, const ServedShape& shape, MemorySum* sum,
              const SizeFlags& flags = {});
// A server but for its weights, its pool, what GPUs' ranks exchange through, and adapters on their
// way from their folders or, unless --host-gib says how much, in the host's memory.
void AddServer(const RuntimeOptions& options, const ServedShape& shape, bool lora, MemorySum* sum,
               const SizeFlags& flags = {});
// Its pool: what --pool-gib says, else the least that it can do with.
void AddLeastPool(const RuntimeOptions& options, const ServedShape& shape, bool lora,
                  MemorySum* sum, const SizeFlags& flags = {});
// Adapters in the host's memory: those on their way from their folders, and those that are kept.
struct AdapterMemory {
  FetchLimits fetches;
  int64_t store_bytes = 0;
};
// Chooses both by what the budget leaves beside the sum and the least pool, where no option does,
// and adds them.
AdapterMemory AddAdapters(const RuntimeOptions& options, const ServedShape& shape,
                          const MemoryBudget& budget, MemorySum* sum);

// Checked before a model is read, given its shape and what is free.
using CheckMemory =
    std::function<Status(const ServedShape& shape, const MemoryBudget& budget, MemorySum weights)>;
// One server with LoRA.
CheckMemory ServerFits(const RuntimeOptions& options);

}  // namespace graft
