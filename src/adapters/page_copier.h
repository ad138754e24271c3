// PageCopier copies adapters from the host's memory into pages of the device, on a stream of its
// own. It copies layer by layer, and several adapters in turns. A layer is copied in less time than
// a step takes for one, so copies that share the bus keep up with a step, and an adapter need not
// wait for the whole of another that was ordered before. One thread, except for functions that say
// otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "adapters/page_arrivals.h"
#include "layers/lora_store.h"
#include "model/config.h"
#include "model/kv_pool.h"
#include "step/adapter_loader.h"
#include "tensor/cuda_memory.h"

namespace graft {

// An adapter that is wholly on the device.
struct CopiedAdapter {
  int32_t content = -1;
  AdapterSlot slot = kNoAdapter;
  int64_t bytes = 0;
  int64_t copy_ns = 0;     // that its own layers took
  int64_t elapsed_ns = 0;  // since its first one began
};

class PageCopier {
 public:
  // Borrowed: adapters lie in the pages of `pool` and are told to `loras`. Any thread. Layers of
  // `copies_at_once` adapters are copied in turns, each as far as the slicer keeps it.
  PageCopier(const ModelConfig& config, KvPool& pool, LoraStore& loras, const Device& device,
             int32_t copies_at_once, AdapterSlicer slicer = {});
  ~PageCopier();

  // Called before a layer's copies are queued: tests hold them back. Before the first Add.
  void SetBeforeLayer(std::function<void(AdapterSlot slot, int32_t layer)> before_layer) {
    before_layer_ = std::move(before_layer);
  }
  bool empty() const { return copies_.empty(); }
  // As many copies are under way as may take turns.
  bool is_full() const { return copies_.size() == copies_at_once_; }
  // Must not be full. `arrival` has the rows, and learns of every layer.
  void Add(CopyOrder order, PageArrival& arrival);
  // Copies the next layer of the adapter that has its turn, and returns the adapter if that was its
  // last layer. Must not be empty. Waits until there is room for the layer in the stream.
  std::optional<CopiedAdapter> CopyLayer();

 private:
  struct Copy;
  void CopyNextLayer(Copy& copy);
  void PlaceTables(const Copy& copy);
  std::vector<LoraMatrix> MakeTables(const HostAdapter& adapter,
                                     const std::vector<PageExtent>& extents);

  KvPool& pool_;
  LoraStore& loras_;
  const size_t copies_at_once_;
  const AdapterSlicer slicer_;
  std::function<void(AdapterSlot, int32_t)> before_layer_;
  OwnedStream stream_;
  std::array<StreamEvent, 2> halves_;         // of layers, the last ones in the stream
  PinnedBuffer tables_;                       // the tables of rows of one adapter
  std::deque<std::unique_ptr<Copy>> copies_;  // the next one's turn first
};

}  // namespace graft
