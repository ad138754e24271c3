#include "cache/adapter_table.h"

#include <utility>

namespace graft {

AdapterLease::AdapterLease(AdapterLease&& other) noexcept
    : table_(std::exchange(other.table_, nullptr)), slot_(std::exchange(other.slot_, -1)) {}

AdapterLease& AdapterLease::operator=(AdapterLease&& other) noexcept {
  if (this == &other) return *this;
  Release();
  table_ = std::exchange(other.table_, nullptr);
  slot_ = std::exchange(other.slot_, -1);
  return *this;
}

void AdapterLease::Release() {
  if (table_ == nullptr) return;
  std::exchange(table_, nullptr)->LetGo(std::exchange(slot_, -1));
}

AdapterTable::AdapterTable(int32_t adapters_max, std::function<void(int32_t)> free_slot)
    : adapters_max_(adapters_max),
      free_slot_(std::move(free_slot)),
      slots_(std::make_unique<Slot[]>(static_cast<size_t>(adapters_max))) {
  CHECK_GE(adapters_max, 0);
  for (int32_t slot = adapters_max - 1; slot >= 0; --slot) free_slots_.push_back(slot);
}

AdapterTable::~AdapterTable() {
  for (int32_t slot = 0; slot < adapters_max_; ++slot) {
    const int32_t own_hold = slots_[slot].state == State::kPublished ? 1 : 0;
    CHECK_EQ(slots_[slot].holds.load(), own_hold) << "leases of slot " << slot << " still live";
  }
}

Result<int32_t> AdapterTable::Reserve() {
  std::lock_guard lock(mutex_);
  if (free_slots_.empty()) {
    return ResourceExhaustedError("all " + std::to_string(adapters_max_) +
                                  " adapter slots are taken; unload an adapter or start the "
                                  "server with more slots");
  }
  const int32_t slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[slot].state = State::kReserved;
  return slot;
}

void AdapterTable::Abandon(int32_t slot) {
  std::lock_guard lock(mutex_);
  CHECK(slot >= 0 && slot < adapters_max_) << slot;
  CHECK(slots_[slot].state == State::kReserved) << "slot " << slot << " is not reserved";
  slots_[slot].state = State::kFree;
  free_slots_.push_back(slot);
}

Status AdapterTable::Publish(int32_t slot, const std::string& hash) {
  std::lock_guard lock(mutex_);
  CHECK(slot >= 0 && slot < adapters_max_) << slot;
  CHECK(slots_[slot].state == State::kReserved) << "slot " << slot << " is not reserved";
  CHECK(!hash.empty()) << "the empty hash is the base model's";
  if (!slot_of_hash_.emplace(hash, slot).second) {
    return AlreadyExistsError("adapter content " + hash + " is loaded already");
  }
  slots_[slot].state = State::kPublished;
  slots_[slot].holds.store(1, std::memory_order_relaxed);
  return OkStatus();
}

Result<AdapterLease> AdapterTable::Acquire(const std::string& hash) {
  std::lock_guard lock(mutex_);
  const auto it = slot_of_hash_.find(hash);
  if (it == slot_of_hash_.end()) return NotFoundError("adapter content " + hash + " is not loaded");
  // A published slot has the table's own hold, which only Retire drops, after taking this lock:
  // the count cannot be zero here.
  slots_[it->second].holds.fetch_add(1, std::memory_order_relaxed);
  return AdapterLease(this, it->second);
}

void AdapterTable::Retire(const std::string& hash) {
  int32_t slot = -1;
  {
    std::lock_guard lock(mutex_);
    const auto it = slot_of_hash_.find(hash);
    if (it == slot_of_hash_.end()) return;
    slot = it->second;
    slots_[slot].state = State::kRetired;
    slot_of_hash_.erase(it);
  }
  LetGo(slot);
}

bool AdapterTable::Contains(const std::string& hash) const {
  std::lock_guard lock(mutex_);
  return slot_of_hash_.count(hash) != 0;
}

int32_t AdapterTable::num_taken() const {
  std::lock_guard lock(mutex_);
  return adapters_max_ - static_cast<int32_t>(free_slots_.size());
}

void AdapterTable::LetGo(int32_t slot) {
  // acq_rel: what every user did with the bytes happens before they are freed.
  if (slots_[slot].holds.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  free_slot_(slot);
  std::lock_guard lock(mutex_);
  CHECK(slots_[slot].state == State::kRetired) << "slot " << slot;
  slots_[slot].state = State::kFree;
  free_slots_.push_back(slot);
}

}  // namespace graft
