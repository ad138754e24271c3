// PageArrivals: adapters that are being copied into pages: which layers' rows have arrived, and
// the rows themselves in the host's memory until then. An arrival begins when the rows are in the
// host's memory and their copy is queued. The copying thread counts the layers. The engine's thread
// asks which have arrived, makes steps wait for the rows that they read, and ends an arrival only
// between steps, so that a step sees it unchanged. Functions for any thread say so.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "adapters/host_store.h"
#include "layers/layer_gate.h"
#include "step/step_plan.h"
#include "tensor/cuda_memory.h"

namespace graft {

class PageArrival {
 public:
  PageArrival(const Device& device, int32_t num_layers);

  // The adapter that is being copied: all of it is in the host's memory until the arrival ends.
  const HostAdapter& adapter() const { return *held_; }
  // Copies of so many layers, the first ones, are in the stream of copies, and those of what all
  // layers need; on the CPU they are done. Any thread.
  int32_t layers_queued() const { return layers_queued_.load(std::memory_order_acquire); }
  // Whether the layer's rows are where the kernels read them. Does not wait. Any thread.
  bool HasArrived(int32_t layer) const;
  // What `stream` is given from now on may read the layer's rows. The caller waits until their copy
  // is queued; on the CPU until it is done. Any thread.
  void Await(int32_t layer, const Stream& stream) const;

  // The copying thread's: the next layer's copies are in `copies`.
  void QueuedLayer(const Stream& copies);

  // Called by PageArrivals.
  void Begin(HostStore::Held held);
  void End() { held_.Release(); }

 private:
  HostStore::Held held_;
  std::vector<StreamEvent> events_;  // [layers] after their copies
  std::atomic<int32_t> layers_queued_{0};
};

// The arrivals under way, by slot.
class PageArrivals {
 public:
  PageArrivals(const Device& device, int32_t num_layers, int32_t adapters_max);

  // The content begins to arrive in `slot`, where the last arrival has ended. Any thread.
  void Begin(AdapterSlot slot, HostStore::Held held);
  // The copying thread's: the arrival in a slot that a copy was ordered for.
  PageArrival& At(AdapterSlot slot) { return *arrivals_[static_cast<size_t>(slot)]; }
  // The engine's: null if everything is there. For slots that a plan may name.
  const PageArrival* Find(AdapterSlot slot) const {
    return arrivals_[static_cast<size_t>(slot)].get();
  }
  // The engine's, when no step that was told of it is still being launched or bridged.
  void End(AdapterSlot slot);
  // Begun and not ended. Any thread.
  int32_t num_under_way() const { return num_under_way_.load(std::memory_order_relaxed); }

 private:
  const Device device_;
  const int32_t num_layers_;
  // One for each slot. The loader's orders and events settle which thread may use an element.
  std::vector<std::unique_ptr<PageArrival>> arrivals_;
  std::atomic<int32_t> num_under_way_{0};
  std::mutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<PageArrival>> spare_;
};

// The gate of a step over the adapters that its plan names. Engine thread only.
class ArrivalGate : public LayerGate {
 public:
  // Looks up the plan's adapters that are under way; null `arrivals`: none ever is.
  void Reset(const StepPlan& plan, const PageArrivals* arrivals);
  // The same for a step that a rank is told of: first nothing, then adapter by adapter.
  void Reset();
  void Add(AdapterSlot slot, const PageArrivals& arrivals);
  // `work` is done before the first layer that a step has to wait for, or when a few layers are
  // launched; {}: nothing.
  void SetWorkWhileBlocked(std::function<void()> work) { work_ = std::move(work); }
  // Does this work now, unless it was done for this step.
  void WorkWhileBlocked();
  // All rows of the step's adapters are where this process reads them.
  bool is_open() const { return arrivals_.empty(); }
  // An arrival of one of its adapters has not ended, so that other ranks may lack rows of it, which
  // copy by themselves.
  bool names_arrivals() const { return names_arrivals_; }
  // The largest rank of those under way: the adapters' table may not know them yet.
  int32_t rank_max() const;
  // The same of the head: whether the one in that slot, or any, changes it.
  bool changes_head(AdapterSlot slot) const;
  bool any_changes_head() const;
  void Await(int32_t layer, const Stream& stream) override;

 private:
  std::vector<const PageArrival*> arrivals_;
  std::vector<AdapterSlot> slots_;  // theirs
  std::function<void()> work_;
  bool has_worked_ = false;
  bool names_arrivals_ = false;
};

}  // namespace graft
