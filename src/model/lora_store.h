// The adapters in memory, by slot, and the table of matrices that the kernels read. A slot that a
// step in flight names is neither set nor freed (the engine's leases see to that); other slots may
// change at any time, from any thread, one call per slot at a time. The table never moves.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "kernels/lora/lora.h"
#include "model/config.h"
#include "model/lora_module.h"
#include "model/lora_weights.h"

namespace graft {

class LoraStore {
 public:
  LoraStore(const ModelConfig& config, int32_t adapters_max);
  LoraStore(const LoraStore&) = delete;
  LoraStore& operator=(const LoraStore&) = delete;

  // For LoraArgs: the matrices of `first` and the modules after it, of all slots.
  const LoraMatrix* matrices(int32_t layer, LoraModule first) const {
    return table_.data() + int64_t{layer} * kLoraModules + static_cast<int64_t>(first);
  }
  int64_t matrices_stride() const { return int64_t{num_layers_} * kLoraModules; }

  // Makes the adapter servable from `slot`, instead of what was there.
  void Set(int32_t slot, LoraWeights weights);
  // Idempotent.
  void Free(int32_t slot);

  int32_t adapters_max() const { return adapters_max_; }
  // Over all loaded adapters, 0 without any. Never less than the rank of an adapter that a step may
  // use, as it is raised before the adapter is published and lowered after it was retired.
  int32_t rank_max() const { return rank_max_.load(std::memory_order_acquire); }
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  int32_t num_loaded() const { return num_loaded_.load(std::memory_order_relaxed); }

 private:
  void WriteTable(int32_t slot, const LoraWeights* weights);
  void Account();

  const int32_t num_layers_;
  const int32_t adapters_max_;
  std::vector<LoraMatrix> table_;  // [adapters_max][num_layers * kLoraModules]

  std::mutex mutex_;  // guards slots_; the table's entries are guarded by who may name a slot
  std::vector<std::optional<LoraWeights>> slots_;
  std::atomic<int32_t> rank_max_{0};
  std::atomic<int64_t> bytes_{0};
  std::atomic<int32_t> num_loaded_{0};
};

}  // namespace graft
