// The adapters in the device's memory, by slot, and the table of matrices that the kernels read. A
// slot that a step in flight names is neither set nor freed (the engine sees to that), but may be
// placed while the step's LayerGate still keeps its kernels from it;
// other slots may change at any time, from any thread, one call per slot at a time. The table never
// moves.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "kernels/common/virtual_rows.h"
#include "kernels/lora/lora.h"
#include "layers/layer_spec.h"
#include "layers/lora_targets.h"
#include "layers/owned_lora.h"
#include "tensor/allocations.h"
#include "tensor/buffer.h"
#include "tensor/cuda_memory.h"

namespace graft {

class LoraStore {
 public:
  LoraStore(const ModelShape& model, int32_t adapters_max, const Device& device = {});
  // What the tables take; adapters take memory of their own (Set) or pages (Place).
  static BytesNeeded BytesFor(const ModelShape& model, int32_t adapters_max, const Device& device);
  LoraStore(const LoraStore&) = delete;
  LoraStore& operator=(const LoraStore&) = delete;

  // For LoraArgs: the matrices of `first` and the modules after it, of all slots.
  const LoraMatrix* matrices(int32_t layer, LoraModule first) const {
    const LoraMatrix* table = device_.is_cpu() ? table_.data() : device_table_.as<LoraMatrix>();
    return table + shape_.lora_matrix(layer, first);
  }
  int64_t matrices_stride() const { return shape_.num_lora_matrices(); }

  // Makes the adapter servable from `slot`, instead of what was there, in memory of its own.
  void Set(int32_t slot, OwnedLora lora);
  // The same for one that has its rows and tables of rows in the device's memory already, which the
  // caller keeps; `bytes` of it. `virtual_rows` of its virtual tokens; null: it has none.
  void Place(int32_t slot, std::vector<LoraMatrix> matrices, int64_t bytes,
             VirtualRows virtual_rows = nullptr);
  // The virtual tokens of all slots, where the kernels read them.
  const VirtualRows* virtual_rows() const {
    return device_.is_cpu() ? virtual_rows_.data() : device_virtual_rows_.as<VirtualRows>();
  }
  // Idempotent.
  void Free(int32_t slot);

  int32_t adapters_max() const { return adapters_max_; }
  // Over all loaded adapters, 0 without any. Never less than the rank of an adapter that a step may
  // use, as it is raised before the adapter is published and lowered after it was retired.
  int32_t rank_max() const { return rank_max_.load(std::memory_order_acquire); }
  // The largest rank of the adapter in a slot that a step names; 0 of an empty one.
  int32_t rank_of(int32_t slot) const {
    return ranks_[static_cast<size_t>(slot)].load(std::memory_order_acquire);
  }
  // Whether the adapter in such a slot changes the head. See any_changes_head.
  bool changes_head(int32_t slot) const {
    return changes_head_[static_cast<size_t>(slot)].load(std::memory_order_acquire);
  }
  bool any_changes_head() const { return num_of_head_.load(std::memory_order_acquire) > 0; }
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  int32_t num_loaded() const { return num_loaded_.load(std::memory_order_relaxed); }

 private:
  // An adapter where the kernels read it.
  struct Resident {
    int32_t rank_max = 0;
    int64_t bytes = 0;
    bool changes_head = false;
    std::vector<LoraMatrix> matrices;    // pointing into the device's memory
    VirtualRows virtual_rows = nullptr;  // as well
    std::optional<OwnedLora> lora;       // on the CPU, without the matrices; on a GPU its copy:
    Buffer buffer;
    Buffer rows;  // the row tables
  };
  Resident MakeResident(OwnedLora lora);
  void Enter(int32_t slot, const std::function<Resident()>& make);
  void WriteTables(int32_t slot, const Resident& resident);
  void Count(const Resident& resident, int32_t change);

  const ModelShape shape_;
  const int32_t adapters_max_;
  const Device device_;
  std::vector<LoraMatrix> table_;          // [adapters_max][num_lora_matrices]
  Buffer device_table_;                    // its copy on a GPU
  std::vector<VirtualRows> virtual_rows_;  // by slot
  Buffer device_virtual_rows_;             // its copy on a GPU

  std::mutex copy_mutex_;  // before mutex_; guards the stream of copies, and is held while they run
  OwnedStream copies_;
  // Guards slots_ and slots_of_rank_; the rule on which steps may name a slot guards the table's
  // entries.
  std::mutex mutex_;
  std::vector<std::optional<Resident>> slots_;
  std::map<int32_t, int32_t> slots_of_rank_;  // how many, of the ranks that there are
  std::vector<std::atomic<int32_t>> ranks_;   // by slot
  std::vector<std::atomic<bool>> changes_head_;
  std::atomic<int32_t> num_of_head_{0};
  std::atomic<int32_t> rank_max_{0};
  std::atomic<int64_t> bytes_{0};
  std::atomic<int32_t> num_loaded_{0};
};

}  // namespace graft
