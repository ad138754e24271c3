// PagedLoader: adapters from folders into the host's memory on one thread, and from there into
// pages of the device on another, with a stream of its own, so that a copy never waits for a disk
// nor a step for either. Rows are copied layer by layer, so that a step may begin before they all
// are there. Orders are served in order of arrival. Its interface is the engine
// thread's; it outlives the engine.
#pragma once

#include <array>
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
#include "model/kv_pool.h"
#include "model/lora_store.h"
#include "step/adapter_loader.h"
#include "tensor/cuda_memory.h"

namespace graft {

class PagedLoader : public AdapterLoader {
 public:
  // Everything is borrowed. Adapters lie in the pages of `pool` and are told to `loras`.
  PagedLoader(const ModelConfig& config, LoraAdapterBackend& backend, KvPool& pool,
              LoraStore& loras, const Device& device, Metrics& metrics);
  ~PagedLoader() override;

  // Told, on the loader's thread and before the engine is, what came out of a folder whose hash was
  // not known. Before the first order.
  void SetOnRead(std::function<void(const std::string& key, const AdapterFacts&)> on_read) {
    on_read_ = std::move(on_read);
  }

  // Called on the copying thread before a layer's copies are queued: tests hold them back. Before
  // the first order.
  void SetBeforeLayer(std::function<void(int32_t layer)> before_layer) {
    before_layer_ = std::move(before_layer);
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

  template <typename Order>
  void Work(Queue<Order>& queue, std::optional<LoadEvent> (PagedLoader::*serve)(const Order&));
  // No event where more is to be done.
  std::optional<LoadEvent> ServeFetch(const FetchJob& job);
  std::optional<LoadEvent> ServeCopy(const CopyOrder& order);
  HostStore::Held TakeHeld(const FetchOrder& source);
  void CopyLayers(const CopyOrder& order, AdapterArrival& arrival);
  void PlaceTables(const CopyOrder& order, const HostAdapter& adapter);
  std::vector<LoraMatrix> MakeTables(const HostAdapter& adapter,
                                     const std::vector<PageExtent>& extents);
  void Announce(LoadEvent event);

  LoraAdapterBackend& backend_;
  KvPool& pool_;
  LoraStore& loras_;
  const Device device_;
  std::function<void(const std::string&, const AdapterFacts&)> on_read_;
  std::function<void(int32_t)> before_layer_;
  AdapterArrivals arrivals_;

  // The copying thread's, but for fetch_seconds_.
  OwnedStream copies_;
  std::array<StreamEvent, 2> halves_;  // of layers, the last ones in it
  PinnedBuffer tables_;                // the tables of rows of one adapter
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
  std::thread fetcher_;
  std::thread copier_;
};

}  // namespace graft
