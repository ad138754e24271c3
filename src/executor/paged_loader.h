// PagedLoader: adapters from folders into the host's memory on one thread, and from there into
// pages of the device on another, with a stream of its own, so that a copy never waits for a disk
// nor a step for either. Rows are copied layer by layer, so that a step may begin before they all
// are there. Orders are begun in order of arrival. Its interface is the engine
// thread's; it outlives the engine.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/metrics.h"
#include "executor/adapter_arrivals.h"
#include "executor/adapter_backend.h"
#include "executor/adapter_copier.h"
#include "model/kv_pool.h"
#include "model/lora_store.h"
#include "step/adapter_loader.h"

namespace graft {

class PagedLoader : public AdapterLoader {
 public:
  // Everything is borrowed. Adapters lie in the pages of `pool` and are told to `loras`; so many
  // are copied at once, in turns.
  PagedLoader(const ModelConfig& config, LoraAdapterBackend& backend, KvPool& pool,
              LoraStore& loras, const Device& device, Metrics& metrics, int32_t copies_at_once);
  ~PagedLoader() override;

  // Told, on the loader's thread and before the engine is, what came out of a folder whose hash was
  // not known. Before the first order.
  void SetOnRead(std::function<void(const std::string& key, const AdapterFacts&)> on_read) {
    on_read_ = std::move(on_read);
  }

  // Called on the copying thread before a layer's copies are queued: tests hold them back. Before
  // the first order.
  void SetBeforeLayer(std::function<void(AdapterSlot slot, int32_t layer)> before_layer) {
    copier_.SetBeforeLayer(std::move(before_layer));
  }
  // What is on its way; an arrival ends when TakeEvents returns its kCopied.
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
    std::deque<Order> orders;
    std::condition_variable came;
  };

  // Fetched for its own sake, or to be copied.
  struct FetchJob {
    FetchOrder order;
    std::optional<CopyOrder> copy;
  };

  void FetchFolders();
  // No event where the copy is to follow.
  std::optional<LoadEvent> ServeFetch(const FetchJob& job);
  void CopyInTurns();
  void FinishCopy(const CopiedAdapter& copied);
  HostStore::Held TakeHeld(const FetchOrder& source);
  void Announce(LoadEvent event);

  LoraAdapterBackend& backend_;
  LoraStore& loras_;
  const Device device_;
  std::function<void(const std::string&, const AdapterFacts&)> on_read_;
  AdapterArrivals arrivals_;
  AdapterCopier copier_;  // the copying thread's
  prometheus::Histogram& fetch_seconds_;
  prometheus::Histogram& copy_seconds_;
  prometheus::Counter& copied_bytes_;

  std::mutex mutex_;
  Queue<FetchJob> fetches_;
  Queue<CopyOrder> copies_wanted_;                     // in the host's memory, their arrivals begun
  std::unordered_map<int32_t, HostStore::Held> held_;  // by content, until copied or dropped
  std::vector<LoadEvent> events_;
  std::vector<AdapterSlot> arrived_;  // slots whose last event is among them
  std::condition_variable event_came_;
  int32_t num_under_way_ = 0;
  std::function<void()> waker_;
  bool stopping_ = false;
  std::thread fetching_;
  std::thread copying_;
};

}  // namespace graft
