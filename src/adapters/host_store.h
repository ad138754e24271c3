// HostStore: adapters in the host's memory, by content hash, up to a limit of bytes, already
// converted to what the device's pages hold. The memory is page-locked if there is a GPU. When the
// store is full, it drops the adapter of the least priority, and among those the one that costs
// least to lose: its bytes times recent requests for it. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "adapters/host_adapter.h"
#include "base/metrics.h"
#include "base/work_crew.h"
#include "cache/page_pool.h"
#include "cache/row_packer.h"
#include "tensor/cuda_memory.h"
#include "tensor/shared_memory.h"

namespace graft {

// Memory of the host, page-locked and all of it brought in for a device that is a GPU.
class LockedSlab {
 public:
  LockedSlab() = default;
  // OutOfMemory where the host gives or locks no more. For a GPU the caller has a HostClaim on the
  // bytes, since the system kills a process that brings in more than the host has.
  LockedSlab(int64_t bytes, const Device& device);
  ~LockedSlab();
  LockedSlab(LockedSlab&& other) noexcept : bytes_(std::move(other.bytes_)) {
    is_locked_ = std::exchange(other.is_locked_, false);
  }
  LockedSlab& operator=(LockedSlab&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(is_locked_, other.is_locked_);
    return *this;
  }
  char* data() { return bytes_.as<char>(); }

 private:
  Buffer bytes_;
  bool is_locked_ = false;
};

// How HostStore::Put goes about it.
struct HostPut {
  int64_t wait_ns = 0;       // for room, where all of it is in use
  WorkCrew* crew = nullptr;  // helps to copy, if there is one
  bool evicts = true;        // false: an adapter that finds no free room is not kept
  // Asked once the bytes are copied, before the adapter can be found; false: it never can. Empty:
  // it can.
  std::function<bool()> may_be_found;
};

class HostStore {
 private:
  struct Entry;

 public:
  // 0: keeps nothing. Page-locked for `device`, if that is a GPU. In `shared` memory of
  // SharedBytes(bytes_max), if there is any: worker processes read rows there.
  HostStore(int64_t bytes_max, Metrics& metrics, const Device& device = {},
            SharedMemory shared = {});
  static int64_t SharedBytes(int64_t bytes_max);
  ~HostStore();
  HostStore(const HostStore&) = delete;
  HostStore& operator=(const HostStore&) = delete;

  // A hold on an adapter, which stays in memory as long. The store outlives it.
  class Held {
   public:
    Held() = default;
    Held(Held&& other) noexcept;
    Held& operator=(Held&& other) noexcept;
    ~Held() { Release(); }
    // An adapter of no store; the caller keeps its bytes.
    static Held Of(HostAdapter adapter);

    explicit operator bool() const { return adapter_ != nullptr; }
    bool is_in_store() const { return entry_ != nullptr; }
    const HostAdapter& operator*() const { return *adapter_; }
    const HostAdapter* operator->() const { return adapter_; }
    void Release();

   private:
    friend class HostStore;
    HostStore* store_ = nullptr;  // null: it is own_
    Entry* entry_ = nullptr;
    // An adapter that found no room in the store, and its bytes.
    std::unique_ptr<HostAdapter> own_;
    std::unique_ptr<AdapterWeights> own_weights_;
    const HostAdapter* adapter_ = nullptr;
  };

  // Empty if the adapter is not there. Counts as a use of it.
  Held Find(const std::string& hash);
  bool Has(const std::string& hash) const;
  std::optional<AdapterFacts> FactsOf(const std::string& hash) const;
  // Copies `weights`, which `adapter` describes, into the store if there is room or room can be
  // made, and the machine has the memory. An adapter that is there under this hash stays. Empty
  // where it may not be found. The weights are taken away only where the store keeps no copy.
  Held Put(HostAdapter adapter, AdapterWeights&& weights, const HostPut& how = {});

  // Higher priorities stay longer, kPinned for ever; 0 by default. Also for adapters not there yet.
  static constexpr int32_t kPinned = INT32_MAX;
  void SetPriority(const std::string& hash, int32_t priority);

  // Bytes of the pages held, holes included.
  int64_t bytes() const;
  // Bytes of memory that were taken so far, for pages in use and to come.
  int64_t slab_bytes();
  int32_t num_adapters() const;
  const SharedMemory& shared() const { return shared_; }
  // For tests.
  Status CheckIntegrity() const;

 private:
  struct Entry {
    HostAdapter adapter;
    PackedRows pages;
    int32_t num_holds = 0;
    double popularity = 0.0;  // uses, those long ago counting less, as of used_at
    int64_t used_at = 0;      // by the count of all uses
  };

  // Priority, cost, entry: the first one goes first.
  using Victim = std::tuple<int32_t, double, Entry*>;

  Held Hold(Entry& entry);
  void LetGo(Entry& entry);
  void CountUse(Entry& entry);
  static double CostOf(const Entry& entry);
  int32_t PriorityOf(const std::string& hash) const;
  Victim VictimOf(Entry& entry) const;
  bool EvictCheapest(int32_t priority_max);
  bool CanFree(int32_t num_pages, int32_t priority_max);
  std::optional<PackedRows> PackEvicting(const HostAdapter& adapter);
  std::optional<PackedRows> FindRoom(const HostAdapter& adapter, const HostPut& how,
                                     std::unique_lock<std::mutex>& lock);
  char* PageData(int32_t page);
  static Held KeepOutside(HostAdapter adapter, AdapterWeights&& weights, const HostPut& how);
  void CopyIntoPages(const PackedRows& pages, HostAdapter* adapter, WorkCrew* crew);
  void Account();

  const int64_t bytes_max_;
  const Device device_;
  mutable std::mutex mutex_;  // all but slabs_, each of which has its own
  PagePool pool_;
  RowPacker packer_;
  // Made when first used, then kept: locking pages takes long. Several threads make several slabs
  // at once.
  struct Slab {
    std::mutex mutex;  // no other is taken under it
    char* data = nullptr;
    int64_t bytes = 0;
    LockedSlab own;  // unless it is shared
  };
  SharedMemory shared_;
  std::vector<Slab> slabs_;
  std::unordered_map<std::string, std::unique_ptr<Entry>> entries_;
  std::unordered_map<std::string, int32_t> priorities_;
  std::set<Victim> victims_;  // the entries that are not held
  uint64_t num_changes_ = 0;  // of what has room or may go: a Put that waits looks again then
  int64_t num_uses_ = 0;
  prometheus::Gauge& bytes_gauge_;
  prometheus::Gauge& adapters_gauge_;
  prometheus::Counter& hits_total_;
  prometheus::Counter& misses_total_;
  prometheus::Counter& evictions_total_;
};

}  // namespace graft
