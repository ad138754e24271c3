// Which adapter content sits in which executor slot, and who still uses it. A published slot is
// held by the table and by every lease; Retire drops the table's hold, and whoever lets go last
// frees the slot, so requests in flight finish on the content they started with.
// Thread-safe; outlives its leases. Letting go of a lease takes no lock unless it was the last.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"

namespace graft {

class AdapterTable;

// The right to use one adapter's slot. An empty lease is the base model's: slot() is -1.
class AdapterLease {
 public:
  AdapterLease() = default;
  AdapterLease(AdapterLease&& other) noexcept;
  AdapterLease& operator=(AdapterLease&& other) noexcept;
  ~AdapterLease() { Release(); }

  int32_t slot() const { return slot_; }
  // Lets go; the lease is empty afterwards.
  void Release();

 private:
  friend class AdapterTable;
  AdapterLease(AdapterTable* table, int32_t slot) : table_(table), slot_(slot) {}

  AdapterTable* table_ = nullptr;
  int32_t slot_ = -1;
};

class AdapterTable {
 public:
  // `free_slot` releases the bytes behind a slot. It runs outside the table's lock, on the thread
  // that let go last (the engine's, or Retire's caller), before the slot can be reserved again.
  AdapterTable(int32_t adapters_max, std::function<void(int32_t)> free_slot);
  ~AdapterTable();

  // A free slot to load into. kResourceExhausted if every slot is taken.
  Result<int32_t> Reserve();
  // Gives back a reserved slot that was not published. Does not call free_slot: the caller cleans
  // up what it loaded.
  void Abandon(int32_t slot);
  // Makes the content of a reserved slot available under its hash. kAlreadyExists if that hash is
  // published already; the slot then stays reserved.
  Status Publish(int32_t slot, const std::string& hash);

  // kNotFound if the hash is not published (any more).
  Result<AdapterLease> Acquire(const std::string& hash);
  // No new leases from now on; an unknown hash is ignored.
  void Retire(const std::string& hash);
  bool Contains(const std::string& hash) const;

  int32_t adapters_max() const { return adapters_max_; }
  // Slots reserved, published, or retired but still leased.
  int32_t num_taken() const;

 private:
  friend class AdapterLease;
  enum class State : uint8_t { kFree, kReserved, kPublished, kRetired };
  struct Slot {
    State state = State::kFree;     // under mutex_
    std::atomic<int32_t> holds{0};  // one per lease, and the table's own while published
  };

  void LetGo(int32_t slot);

  const int32_t adapters_max_;
  const std::function<void(int32_t)> free_slot_;
  const std::unique_ptr<Slot[]> slots_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, int32_t> slot_of_hash_;  // published ones
  std::vector<int32_t> free_slots_;                        // lowest last
};

}  // namespace graft
