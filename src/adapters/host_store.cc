#include "adapters/host_store.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "tensor/host_memory.h"

namespace graft {
namespace {

constexpr int64_t kPageBytes = int64_t{1} << 20;
constexpr int32_t kSlabPages = 64;
// After so many uses of any adapter, an old one counts half.
constexpr double kHalfLifeUses = 1024.0;
constexpr std::chrono::milliseconds kRoomPoll(5);

// Source bytes [begin, begin + bytes) of these stretches.
void CopySource(const std::vector<HostAdapter::Stretch>& stretches, int64_t begin, int64_t bytes,
                char* data) {
  const int64_t end = begin + bytes;
  for (const HostAdapter::Stretch& stretch : stretches) {
    const int64_t first = std::max(begin, stretch.source_begin);
    const int64_t last = std::min(end, stretch.source_begin + stretch.bytes);
    if (first >= last) continue;
    std::memcpy(data + (first - begin), stretch.data + (first - stretch.source_begin),
                static_cast<size_t>(last - first));
  }
}

}  // namespace

// Not a PinnedBuffer: memory that other processes map can be locked by registration alone, so that
// this way is needed in any case, and one is enough. Several threads make slabs at once, and each
// brings in its own here, which the driver does within its own call otherwise. A Buffer has huge
// pages where the system gives them, which are fewer to lock. But the driver reports memory that it
// lacks, and the system does not refuse what is written first: HostStore claims it before.
LockedSlab::LockedSlab(int64_t bytes, const Device& device) {
  constexpr int64_t kHugeFrom = int64_t{4} << 20;  // from where on a Buffer has whole pages
  bytes_ = Buffer(std::max(bytes, kHugeFrom));
  if (device.is_cpu()) return;
  constexpr int64_t kSmallPage = 4096;
  for (int64_t at = 0; at < bytes_.bytes(); at += kSmallPage) data()[at] = 0;
  LockPages(data(), bytes_.bytes());
  is_locked_ = true;
}

LockedSlab::~LockedSlab() {
  if (is_locked_) UnlockPages(data());
}

HostStore::Held::Held(Held&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      entry_(std::exchange(other.entry_, nullptr)),
      own_(std::move(other.own_)),
      own_weights_(std::move(other.own_weights_)),
      adapter_(std::exchange(other.adapter_, nullptr)) {}

HostStore::Held& HostStore::Held::operator=(Held&& other) noexcept {
  if (this == &other) return *this;
  Release();
  store_ = std::exchange(other.store_, nullptr);
  entry_ = std::exchange(other.entry_, nullptr);
  own_ = std::move(other.own_);
  own_weights_ = std::move(other.own_weights_);
  adapter_ = std::exchange(other.adapter_, nullptr);
  return *this;
}

HostStore::Held HostStore::Held::Of(HostAdapter adapter) {
  Held held;
  held.own_ = std::make_unique<HostAdapter>(std::move(adapter));
  held.adapter_ = held.own_.get();
  return held;
}

void HostStore::Held::Release() {
  if (store_ != nullptr) store_->LetGo(*entry_);
  store_ = nullptr;
  entry_ = nullptr;
  own_.reset();
  own_weights_.reset();
  adapter_ = nullptr;
}

int64_t HostStore::SharedBytes(int64_t bytes_max) {
  return std::max<int64_t>(1, bytes_max / kPageBytes) * kPageBytes;
}

HostStore::HostStore(int64_t bytes_max, Metrics& metrics, const Device& device, SharedMemory shared)
    : bytes_max_(bytes_max),
      device_(device),
      pool_(static_cast<int32_t>(std::max<int64_t>(1, bytes_max / kPageBytes))),
      packer_(pool_, PageUse::kAdapters, kPageBytes),
      shared_(std::move(shared)),
      slabs_(static_cast<size_t>((pool_.num_pages() + kSlabPages - 1) / kSlabPages)),
      bytes_gauge_(metrics.Gauge("graft_host_adapter_bytes",
                                 "Bytes of the host's memory that adapters hold")),
      adapters_gauge_(metrics.Gauge("graft_host_adapters", "Adapters in the host's memory")),
      hits_total_(metrics.Counter("graft_host_adapter_lookups_total",
                                  "Adapters looked for in the host's memory", {{"result", "hit"}})),
      misses_total_(metrics.Counter("graft_host_adapter_lookups_total",
                                    "Adapters looked for in the host's memory",
                                    {{"result", "miss"}})),
      evictions_total_(metrics.Counter("graft_host_adapter_evictions_total",
                                       "Adapters evicted from the host's memory")) {
  CHECK_GE(bytes_max, 0);
  CHECK_LE(bytes_max / kPageBytes, INT32_MAX);
  CHECK(shared_.bytes() == 0 || shared_.bytes() >= SharedBytes(bytes_max));
}

HostStore::~HostStore() {
  for (const auto& [hash, entry] : entries_) CHECK_EQ(entry->num_holds, 0) << hash;
}

HostStore::Held HostStore::Hold(Entry& entry) {
  if (entry.num_holds++ == 0) victims_.erase(VictimOf(entry));
  Held held;
  held.store_ = this;
  held.entry_ = &entry;
  held.adapter_ = &entry.adapter;
  return held;
}

void HostStore::LetGo(Entry& entry) {
  const std::lock_guard lock(mutex_);
  CHECK_GT(entry.num_holds, 0);
  if (--entry.num_holds > 0) return;
  victims_.insert(VictimOf(entry));
  ++num_changes_;
}

// Counts a use. The entry must be held, or else its place among the victims would change.
void HostStore::CountUse(Entry& entry) {
  ++num_uses_;
  const auto age = static_cast<double>(num_uses_ - entry.used_at);
  entry.popularity = 1.0 + entry.popularity * std::exp2(-age / kHalfLifeUses);
  entry.used_at = num_uses_;
}

// The logarithm of bytes times uses, as these would have counted when the store was new. All uses
// fade alike, so the order of two adapters changes only when one of them is used.
double HostStore::CostOf(const Entry& entry) {
  return std::log2(static_cast<double>(entry.adapter.weight_bytes) * entry.popularity) +
         static_cast<double>(entry.used_at) / kHalfLifeUses;
}

int32_t HostStore::PriorityOf(const std::string& hash) const {
  const auto it = priorities_.find(hash);
  return it == priorities_.end() ? 0 : it->second;
}

HostStore::Victim HostStore::VictimOf(Entry& entry) const {
  return {PriorityOf(entry.adapter.facts.hash), CostOf(entry), &entry};
}

void HostStore::SetPriority(const std::string& hash, int32_t priority) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(hash);
  const bool is_victim = it != entries_.end() && it->second->num_holds == 0;
  if (is_victim) victims_.erase(VictimOf(*it->second));
  if (priority == 0) {
    priorities_.erase(hash);
  } else {
    priorities_[hash] = priority;
  }
  if (is_victim) victims_.insert(VictimOf(*it->second));
  ++num_changes_;
}

HostStore::Held HostStore::Find(const std::string& hash) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(hash);
  (it == entries_.end() ? misses_total_ : hits_total_).Increment();
  if (it == entries_.end()) return Held();
  Held held = Hold(*it->second);
  CountUse(*it->second);
  return held;
}

bool HostStore::Has(const std::string& hash) const {
  const std::lock_guard lock(mutex_);
  return entries_.count(hash) != 0;
}

std::optional<AdapterFacts> HostStore::FactsOf(const std::string& hash) const {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(hash);
  if (it == entries_.end()) return std::nullopt;
  return it->second->adapter.facts;
}

// False: everything else is held, or of a higher priority.
bool HostStore::EvictCheapest(int32_t priority_max) {
  if (victims_.empty()) return false;
  const auto [priority, cost, entry] = *victims_.begin();
  if (priority > priority_max || priority == kPinned) return false;
  victims_.erase(victims_.begin());
  entries_.erase(entries_.find(entry->adapter.facts.hash));
  evictions_total_.Increment();
  return true;
}

char* HostStore::PageData(int32_t page) {
  const int32_t first = page / kSlabPages * kSlabPages;
  Slab& slab = slabs_[static_cast<size_t>(page / kSlabPages)];
  const std::lock_guard lock(slab.mutex);
  if (slab.data == nullptr) {
    const int64_t bytes = std::min(kSlabPages, pool_.num_pages() - first) * kPageBytes;
    // All of what is locked is brought in at once, and of plain memory what is used.
    std::optional<HostClaim> claim;
    if (!device_.is_cpu()) claim.emplace(bytes);
    UseDevice(device_);  // else locking would wake the first GPU, and none for the CPU
    if (shared_.bytes() == 0) {
      slab.own = LockedSlab(bytes, device_);
      slab.data = slab.own.data();
    } else {
      if (!device_.is_cpu()) shared_.Lock(first * kPageBytes, bytes);
      slab.data = shared_.data() + first * kPageBytes;
    }
    slab.bytes = bytes;
  }
  return slab.data + (page - first) * kPageBytes;
}

// Whether so many pages would be free once everything that may go for this priority were gone.
bool HostStore::CanFree(int32_t num_pages, int32_t priority_max) {
  const auto set_reclaimable = [&](bool reclaimable) {
    for (const auto& [priority, cost, entry] : victims_) {
      if (priority > priority_max || priority == kPinned) return;
      entry->pages.SetReclaimable(reclaimable);
    }
  };
  set_reclaimable(true);
  const int32_t num_free = pool_.num_allocatable(PageUse::kAdapters) + packer_.num_reclaimable();
  set_reclaimable(false);
  return num_pages <= num_free;
}

// Empty: there is no room, and none can be made now. Nothing is evicted in vain.
std::optional<PackedRows> HostStore::PackEvicting(const HostAdapter& adapter) {
  std::optional<PackedRows> pages = packer_.Pack(adapter.weight_rows);
  const int32_t priority = PriorityOf(adapter.facts.hash);
  if (pages.has_value() || !CanFree(packer_.NumPages(adapter.weight_rows), priority)) return pages;
  while (!pages.has_value() && EvictCheapest(priority)) pages = packer_.Pack(adapter.weight_rows);
  return pages;
}

// Empty where the adapter finds no room, or as long as it finds none.
std::optional<PackedRows> HostStore::FindRoom(const HostAdapter& adapter, const HostPut& how,
                                              std::unique_lock<std::mutex>& lock) {
  const int32_t num_pages = packer_.NumPages(adapter.weight_rows);
  if (num_pages < 0 || num_pages > bytes_max_ / kPageBytes) return std::nullopt;
  if (!how.evicts) return packer_.Pack(adapter.weight_rows);
  std::optional<PackedRows> pages = PackEvicting(adapter);
  // Other threads put adapters that find room meanwhile.
  const int64_t until_ns = SteadyClock::Get().NowNs() + how.wait_ns;
  uint64_t seen = num_changes_;
  while (!pages.has_value() && SteadyClock::Get().NowNs() < until_ns) {
    lock.unlock();
    std::this_thread::sleep_for(kRoomPoll);
    lock.lock();
    // To look through all that may go takes milliseconds where they are thousands.
    if (std::exchange(seen, num_changes_) != num_changes_) pages = PackEvicting(adapter);
  }
  return pages;
}

// An extent is a page or a part of one: each is a piece of work.
void HostStore::CopyIntoPages(const PackedRows& pages, HostAdapter* adapter, WorkCrew* crew) {
  const std::vector<PageExtent>& extents = pages.extents();
  std::vector<HostAdapter::Stretch> stretches(extents.size());
  WorkCrew::Batch batch(crew, std::ssize(extents), [&](int64_t piece) {
    const PageExtent& extent = extents[static_cast<size_t>(piece)];
    char* const data = PageData(extent.page) + extent.page_begin;
    CopySource(adapter->stretches, extent.source_begin, extent.bytes, data);
    stretches[static_cast<size_t>(piece)] = {extent.source_begin, extent.bytes, data};
  });
  batch.Wait();
  adapter->stretches = std::move(stretches);
}

// No Find leads to it. Empty where it may not be used.
HostStore::Held HostStore::KeepOutside(HostAdapter adapter, AdapterWeights&& weights,
                                       const HostPut& how) {
  Held held;
  if (how.may_be_found && !how.may_be_found()) return held;
  held.own_weights_ = std::make_unique<AdapterWeights>(std::move(weights));
  held.own_ = std::make_unique<HostAdapter>(std::move(adapter));
  held.adapter_ = held.own_.get();
  return held;
}

HostStore::Held HostStore::Put(HostAdapter adapter, AdapterWeights&& weights, const HostPut& how) {
  std::unique_lock lock(mutex_);
  const std::string hash = adapter.facts.hash;
  if (const auto it = entries_.find(hash); it != entries_.end()) return Hold(*it->second);
  std::optional<PackedRows> pages = FindRoom(adapter, how, lock);
  if (!pages.has_value()) {
    lock.unlock();
    return KeepOutside(std::move(adapter), std::move(weights), how);
  }
  // Memory may run out: pages are given back under the lock.
  struct LockAgain {
    std::unique_lock<std::mutex>& lock;
    uint64_t& num_changes;
    ~LockAgain() {
      if (!lock.owns_lock()) lock.lock();
      ++num_changes;
    }
  } const lock_again{lock, num_changes_};
  lock.unlock();
  // Copying takes milliseconds, and lookups must not wait for it.
  try {
    CopyIntoPages(*pages, &adapter, how.crew);
  } catch (const std::bad_alloc&) {
    // The host is short of memory for a slab. The adapter is served as where there is no room.
    return KeepOutside(std::move(adapter), std::move(weights), how);
  }
  if (how.may_be_found && !how.may_be_found()) return Held();
  auto entry = std::make_unique<Entry>();
  entry->adapter = std::move(adapter);
  entry->pages = std::move(*pages);
  lock.lock();
  // Another thread may have put the same content meanwhile, and requests may wait for that already.
  if (const auto it = entries_.find(hash); it != entries_.end()) {
    entry.reset();
    return Hold(*it->second);
  }
  Held held = Hold(*entry);
  CountUse(*entry);
  entries_[hash] = std::move(entry);
  Account();
  return held;
}

void HostStore::Account() {
  bytes_gauge_.Set(static_cast<double>(packer_.bytes_held()));
  adapters_gauge_.Set(static_cast<double>(entries_.size()));
}

int64_t HostStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return packer_.bytes_held();
}

int64_t HostStore::slab_bytes() {
  int64_t bytes = 0;
  for (Slab& slab : slabs_) {
    const std::lock_guard lock(slab.mutex);
    bytes += slab.bytes;
  }
  return bytes;
}

int32_t HostStore::num_adapters() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int32_t>(entries_.size());
}

Status HostStore::CheckIntegrity() const {
  const std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(pool_.CheckIntegrity());
  RETURN_IF_ERROR(packer_.CheckIntegrity());
  int64_t bytes = 0;
  std::set<Victim> victims;
  for (const auto& [hash, entry] : entries_) {
    bytes += entry->adapter.weight_bytes;
    if (entry->num_holds == 0) victims.insert(VictimOf(*entry));
  }
  if (victims != victims_) return InternalError("the store would evict others than it may");
  if (bytes != packer_.bytes_used()) return InternalError("the store holds rows of nobody");
  return OkStatus();
}

}  // namespace graft
