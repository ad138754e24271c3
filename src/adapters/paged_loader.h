// PagedLoader reads adapters from folders into the host's memory on a few threads, and copies them
// from there into pages of the device on another thread, with a stream of its own. So a copy never
// waits for a disk, nor a step for either. Rows are copied layer by layer, so that a step may begin
// before all of them are there.
// Orders of one holder begin in order of arrival, and holders take turns for threads and for memory
// (FetchLine). If all threads are busy for other holders, more are started. A folder on storage
// that does not answer holds up only its own requests: an extra thread replaces the one that waits
// for it, and the fetch is given up in the end. The waiting thread stays until the storage answers,
// and the destructor waits for it. Reads wait for each other where their memory would be more than
// FetchLimits allows. Where slow ones take all of that, one at a time is read beside them.
// The interface is for the engine thread; the loader outlives the engine.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "adapters/fetch_line.h"
#include "adapters/page_arrivals.h"
#include "adapters/page_copier.h"
#include "adapters/peft_backend.h"
#include "adapters/rank_copies.h"
#include "base/metrics.h"
#include "base/turn_queue.h"
#include "layers/lora_store.h"
#include "model/kv_pool.h"
#include "step/adapter_loader.h"

namespace graft {

// Where several ranks share the model, an adapter is copied once all of them have their slices.
struct LoaderRanks {
  RankCopies* others = nullptr;  // null: there is one rank
  AdapterSlicer slicer;          // this one's
};

class PagedLoader : public AdapterLoader {
 public:
  // Everything is borrowed. Adapters lie in the pages of `pool` and are told to `loras`; so many
  // are copied at once, in turns.
  PagedLoader(const ModelConfig& config, PeftBackend& backend, KvPool& pool, LoraStore& loras,
              const Device& device, Metrics& metrics, int32_t copies_at_once,
              const FetchLimits& limits = {}, const LoaderRanks& ranks = {});
  ~PagedLoader() override;

  // `on_read` is told, on the loader's threads and before the engine is, what came out of a folder
  // with a hash that was not known. To be set before the first order.
  void SetOnRead(std::function<void(const std::string& key, const AdapterFacts&)> on_read) {
    on_read_ = std::move(on_read);
  }

  // Called on the copying thread before a layer's copies are queued: tests hold them back. Before
  // the first order.
  void SetBeforeLayer(std::function<void(AdapterSlot slot, int32_t layer)> before_layer) {
    copier_.SetBeforeLayer(std::move(before_layer));
  }
  // Whether a folder is read, or waits to be. Any thread.
  bool is_reading();
  // The adapters on their way; an arrival ends when TakeEvents returns its kCopied.
  const PageArrivals& arrivals() const { return arrivals_; }

  void Fetch(FetchOrder order) override;
  bool Copy(CopyOrder order) override;
  std::optional<AdapterFacts> FindInHost(const std::string& hash) const override {
    return backend_.FactsOf(hash);
  }
  void Drop(int32_t content) override;
  void Free(AdapterSlot slot) override { loras_.Free(slot); }
  std::vector<LoadEvent> TakeEvents() override;
  void WaitForEvent() override;
  void SetWaker(std::function<void()> waker) override;

 private:
  void FindReader();
  void WakeReader();
  void FetchFolders();
  // The lock is held at both ends of these two, not between.
  void Look(AdapterFetch& fetch, std::unique_lock<std::mutex>& lock);
  void Read(AdapterFetch& fetch, std::unique_lock<std::mutex>& lock);
  Result<HostStore::Held> FetchNow(const FetchOrder& order);
  bool MayHold(const HostStore::Held& held) const;
  int64_t BytesToFetch(const FetchOrder& order) const;
  int64_t BytesBesideLine() const;
  void TellBytes();
  void WatchFetches();
  // Gives up fetches that took too long. Returns when to look again, in nanoseconds from `now_ns`.
  int64_t GiveUpLate(int64_t now_ns);
  void GiveUp(AdapterFetch& fetch, int64_t now_ns);
  void TellSlow(AdapterFetch& fetch);
  void OrderFetch(FetchOrder order, std::optional<CopyOrder> copy);
  bool HangsAt(const std::string& path) const;
  static LoadEvent EventOf(const AdapterFetch& fetch, Status status);
  void BeginCopy(CopyOrder order, HostStore::Held held);
  void CopyInTurns();
  void FinishCopy(const CopiedAdapter& copied);
  HostStore::Held TakeHeld(const CopyOrder& order);
  void SetArriving(AdapterSlot slot, int64_t bytes);
  void Announce(LoadEvent event);
  void Push(LoadEvent event);

  PeftBackend& backend_;
  LoraStore& loras_;
  const Device device_;
  const FetchLimits limits_;
  RankCopies* const other_ranks_;
  std::function<void(const std::string&, const AdapterFacts&)> on_read_;
  PageArrivals arrivals_;
  PageCopier copier_;  // the copying thread's
  prometheus::Histogram& fetch_seconds_;
  prometheus::Histogram& copy_seconds_;
  prometheus::Counter& copied_bytes_;
  prometheus::Gauge& hanging_gauge_;
  prometheus::Gauge& bytes_gauge_;

  std::mutex mutex_;
  FetchLine line_;
  std::condition_variable fetch_came_;  // one that may be taken
  std::vector<std::thread> readers_;    // with those that hang
  std::condition_variable watched_changed_;
  TurnQueue<int32_t, CopyOrder> copies_wanted_;  // by holder; in the host's memory, arrivals begun
  std::condition_variable copy_came_;
  std::unordered_map<int32_t, HostStore::Held> held_;  // by content, until copied or dropped
  std::vector<int64_t> arriving_bytes_;  // by slot, what arrives from outside the store
  std::vector<LoadEvent> events_;
  std::vector<uint32_t> rank_copies_;  // by slot, the numbers of the other ranks' copies
  std::vector<AdapterSlot> arrived_;   // slots that have their last event in events_
  std::condition_variable event_came_;
  int32_t num_under_way_ = 0;
  std::function<void()> waker_;
  bool stopping_ = false;
  std::thread watching_;
  std::thread copying_;
};

}  // namespace graft
