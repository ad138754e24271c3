#include "adapters/page_arrivals.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/check.h"

namespace graft {

PageArrival::PageArrival(const Device& device, int32_t num_layers) {
  events_.reserve(static_cast<size_t>(num_layers));
  for (int32_t layer = 0; layer < num_layers; ++layer) events_.emplace_back(device);
}

bool PageArrival::HasArrived(int32_t layer) const {
  return layers_queued() > layer && events_[static_cast<size_t>(layer)].HasHappened();
}

void PageArrival::Await(int32_t layer, const Stream& stream) const {
  // A layer takes a tenth of a millisecond on its way, falling asleep and waking half of that.
  constexpr int kLooks = 500;
  for (int look = 0; layers_queued() <= layer && look < kLooks; ++look) std::this_thread::yield();
  for (int32_t queued = layers_queued(); queued <= layer; queued = layers_queued()) {
    layers_queued_.wait(queued, std::memory_order_acquire);
  }
  // A stream that need not wait keeps its kernels close together.
  if (!HasArrived(layer)) events_[static_cast<size_t>(layer)].HoldUp(stream);
}

void PageArrival::Begin(HostStore::Held held) {
  held_ = std::move(held);
  layers_queued_.store(0, std::memory_order_release);
}

void PageArrival::QueuedLayer(const Stream& copies) {
  const int32_t layer = layers_queued_.load(std::memory_order_relaxed);
  events_[static_cast<size_t>(layer)].Record(copies);
  // After the event: a thread that sees the count waits for this recording, not for an older one.
  layers_queued_.store(layer + 1, std::memory_order_release);
  layers_queued_.notify_all();
}

PageArrivals::PageArrivals(const Device& device, int32_t num_layers, int32_t adapters_max)
    : device_(device), num_layers_(num_layers), arrivals_(static_cast<size_t>(adapters_max)) {}

void PageArrivals::Begin(AdapterSlot slot, HostStore::Held held) {
  std::unique_ptr<PageArrival>& arrival = arrivals_[static_cast<size_t>(slot)];
  CHECK(arrival == nullptr) << "slot " << slot;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      arrival = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  if (arrival == nullptr) arrival = std::make_unique<PageArrival>(device_, num_layers_);
  arrival->Begin(std::move(held));
  ++num_under_way_;
}

void PageArrivals::End(AdapterSlot slot) {
  std::unique_ptr<PageArrival>& arrival = arrivals_[static_cast<size_t>(slot)];
  if (arrival == nullptr) return;
  arrival->End();
  --num_under_way_;
  const std::lock_guard lock(mutex_);
  spare_.push_back(std::move(arrival));
}

void ArrivalGate::Reset(const StepPlan& plan, const PageArrivals* arrivals) {
  Reset();
  if (arrivals == nullptr) return;
  AdapterSlot last = kNoAdapter;
  for (const PlannedSequence& planned : plan.sequences) {
    // Sequences of one adapter are adjacent.
    if (std::exchange(last, planned.adapter_slot) == planned.adapter_slot) continue;
    if (planned.adapter_slot != kNoAdapter) Add(planned.adapter_slot, *arrivals);
  }
}

void ArrivalGate::Reset() {
  arrivals_.clear();
  slots_.clear();
  has_worked_ = false;
  names_arrivals_ = false;
}

void ArrivalGate::Add(AdapterSlot slot, const PageArrivals& arrivals) {
  const PageArrival* const arrival = arrivals.Find(slot);
  if (arrival == nullptr) return;
  names_arrivals_ = true;
  const int32_t num_layers = arrival->adapter().facts.num_layers;
  if (arrival->HasArrived(num_layers - 1)) return;
  arrivals_.push_back(arrival);
  slots_.push_back(slot);
}

int32_t ArrivalGate::rank_max() const {
  int32_t rank_max = 0;
  for (const PageArrival* arrival : arrivals_) {
    rank_max = std::max(rank_max, arrival->adapter().facts.rank_max);
  }
  return rank_max;
}

bool ArrivalGate::changes_head(AdapterSlot slot) const {
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i] == slot) return arrivals_[i]->adapter().changes_head();
  }
  return false;
}

bool ArrivalGate::any_changes_head() const {
  return std::any_of(arrivals_.begin(), arrivals_.end(),
                     [](const PageArrival* arrival) { return arrival->adapter().changes_head(); });
}

void ArrivalGate::WorkWhileBlocked() {
  if (!std::exchange(has_worked_, true) && work_) work_();
}

void ArrivalGate::Await(int32_t layer, const Stream& stream) {
  // So many layers keep the device busy for as long as that takes.
  constexpr int32_t kLayersAhead = 2;
  if (layer == kLayersAhead) WorkWhileBlocked();
  const auto blocks = [layer](const PageArrival* one) { return one->layers_queued() <= layer; };
  if (std::any_of(arrivals_.begin(), arrivals_.end(), blocks)) WorkWhileBlocked();
  for (const PageArrival* arrival : arrivals_) arrival->Await(layer, stream);
}

}  // namespace graft
