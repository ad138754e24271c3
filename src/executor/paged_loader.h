// PagedLoader reads adapters from folders into the host's memory on a few threads, and copies them
// from there into pages of the device on another thread, with a stream of its own. So a copy never
// waits for a disk, nor a step for either. Rows are copied layer by layer, so that a step may begin
// before all of them are there.
// Orders of one holder begin in order of arrival, and holders take turns. If all threads are busy
// for other holders, more are started. A folder on storage that does not answer holds up only
// its own requests: an extra thread replaces the one that waits for it, and the fetch is given up
// in the end. The waiting thread stays until the storage answers, and the destructor waits for it.
// Reads wait for each other where their memory would be more than FetchLimits allows. One that is
// slow is not waited for, so that storage that hangs takes no room from others.
// The interface is for the engine thread; the loader outlives the engine.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/metrics.h"
#include "base/turn_queue.h"
#include "executor/adapter_arrivals.h"
#include "executor/adapter_backend.h"
#include "executor/adapter_copier.h"
#include "executor/rank_link.h"
#include "model/kv_pool.h"
#include "model/lora_store.h"
#include "step/adapter_loader.h"

namespace graft {

struct FetchLimits {
  int32_t threads = 2;  // that read folders for one holder
  // Further threads: for other holders, and in the place of threads that hang on a folder.
  int32_t threads_more = 16;
  // After this a fetch is slow (LoadEvent::kSlow), and another thread takes its place.
  int64_t slow_ns = 2'000'000'000;
  // After this, or so long in line, it has failed, and so do further ones of its folder at once
  // until the storage has answered.
  int64_t give_up_ns = 120'000'000'000;
  // Memory that reading takes at once, and what was fetched and finds no room in the store. One
  // that takes more is read alone, and so is each once as much is fetched. A slow fetch does not
  // count.
  int64_t bytes_max = int64_t{1} << 30;
  // Contents that are kept for a copy that is not ordered yet.
  int32_t held_max = 8;
};

// Where several ranks share the model, an adapter is copied once all of them have their slices.
struct LoaderRanks {
  RankLink* link = nullptr;  // null: there is one rank
  AdapterSlicer slicer;      // this one's
};

class PagedLoader : public AdapterLoader {
 public:
  // Everything is borrowed. Adapters lie in the pages of `pool` and are told to `loras`; so many
  // are copied at once, in turns.
  PagedLoader(const ModelConfig& config, LoraAdapterBackend& backend, KvPool& pool,
              LoraStore& loras, const Device& device, Metrics& metrics, int32_t copies_at_once,
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
  const AdapterArrivals& arrivals() const { return arrivals_; }

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
  template <typename Order>
  struct Queue {
    TurnQueue<int32_t, Order> orders;  // by holder
    std::condition_variable came;
  };

  // Fetched for its own sake, or to be copied.
  struct FetchJob {
    FetchOrder order;
    std::optional<CopyOrder> copy;
    int64_t since_ns = 0;  // in line, or with a thread
  };
  enum class ReadingPhase : uint8_t {
    kLooking,  // for the file's size
    kWaiting,  // for room
    kReading,
  };
  // A fetch that has a thread.
  struct Reading {
    FetchJob job;
    ReadingPhase phase = ReadingPhase::kLooking;
    int64_t bytes = 0;  // of memory that it will take, once it has looked
    bool is_slow = false;
    bool hangs = false;    // given up, and the storage has not answered yet
    bool is_done = false;  // it will not be given up any more
    bool is_given_up = false;
  };
  using Readings = std::list<Reading>;

  bool FindReader();
  bool MayRead(int32_t holder) const;
  void FetchFolders();
  // The lock is held at both ends, not between.
  void Read(Reading& reading, std::unique_lock<std::mutex>& lock);
  Result<HostStore::Held> FetchNow(const FetchJob& job);
  bool WaitForRoom(Reading& reading, std::unique_lock<std::mutex>& lock);
  bool HasRoom(const Reading& reading) const;
  bool MayHold(const HostStore::Held& held) const;
  static bool TakesRoom(const Reading& reading);
  int64_t BytesToFetch(const FetchOrder& order) const;
  int64_t BytesUnderWay() const;
  int64_t HeldBytes() const;
  void TellBytes();
  void WatchReadings();
  // Gives up fetches that took too long. Returns when to look again, in nanoseconds from `now_ns`.
  int64_t GiveUpLate(int64_t now_ns);
  void MakePlaceFor(Reading& reading);
  void OrderFetch(FetchJob job);
  bool HangsAt(const std::string& path) const;
  static LoadEvent EventOf(const FetchJob& job, Status status);
  void BeginCopy(CopyOrder order, HostStore::Held held);
  void CopyInTurns();
  void FinishCopy(const CopiedAdapter& copied);
  HostStore::Held TakeHeld(const FetchOrder& source);
  void Announce(LoadEvent event);
  void Push(LoadEvent event);

  LoraAdapterBackend& backend_;
  LoraStore& loras_;
  const Device device_;
  const FetchLimits limits_;
  RankLink* const ranks_;
  std::function<void(const std::string&, const AdapterFacts&)> on_read_;
  AdapterArrivals arrivals_;
  AdapterCopier copier_;  // the copying thread's
  prometheus::Histogram& fetch_seconds_;
  prometheus::Histogram& copy_seconds_;
  prometheus::Counter& copied_bytes_;
  prometheus::Gauge& hanging_gauge_;
  prometheus::Gauge& bytes_gauge_;

  std::mutex mutex_;
  Queue<FetchJob> fetches_;
  Readings readings_;                 // those given up too, until their storage answers
  std::vector<std::thread> readers_;  // with those that hang
  std::condition_variable watched_changed_;
  std::condition_variable room_came_;
  Queue<CopyOrder> copies_wanted_;                     // in the host's memory, their arrivals begun
  std::unordered_map<int32_t, HostStore::Held> held_;  // by content, until copied or dropped
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
