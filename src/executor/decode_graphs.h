// DecodeGraphs: the kernel launches of a decode step, recorded once per batch size and bound on the
// ranks. A recording is replayed for every batch within its bounds, with any mix of adapters, ranks
// and lengths, because it reads these from the device's memory. A replay costs the host
// microseconds; launching the kernels one by one costs milliseconds. GPUs only; engine thread only.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "model/transformer.h"
#include "tensor/cuda_graph.h"

namespace graft {

class DecodeGraphs {
 public:
  // For batches of up to `sequences_max` rows, of a sequence up to 1 + draft_tokens_max. The
  // addresses of `lora` are recorded; null matrices: none.
  DecodeGraphs(Transformer& transformer, int32_t sequences_max, int32_t draft_tokens_max,
               const LoraTable& lora);

  // Called with graphs done and in total.
  using Progress = std::function<void(int64_t done, int64_t total)>;
  // Records all missing graphs: every batch size, for base rows and for ranks up to `rank_max`,
  // with few adapters and with many. Each takes a few milliseconds. A step that lacks its graph
  // records it itself.
  void Record(int32_t rank_max, Stream& stream, const Progress& progress = {});

  // Whether Run takes this batch: a token is drawn after each row, and there are not too many.
  bool Covers(const HostBatch& batch) const;
  // Returns Forward's logits. The batch's bound on the ranks is that of its own adapters. Where no
  // memory is left for a graph, the step is launched kernel by kernel.
  const float* Run(const HostBatch& batch, Stream& stream);

  // The rows that such a step computes, padding included.
  int32_t PaddedRows(int32_t num_rows) const;

  // About what the driver keeps on the GPU for the graphs of all batch sizes and of ranks of up to
  // rank_max (0: no LoRA), those of adapters of the head among them.
  static int64_t BytesFor(int32_t num_layers, int32_t sequences_max, int32_t rank_max, bool drafts);

  // The recorded batch sizes, ascending.
  static std::vector<int32_t> BatchSizes(int32_t sequences_max);
  // The recorded bound on ranks for ranks of up to `rank_max`; 0, without LoRA, for 0.
  static int32_t RankBound(int32_t rank_max);
  // The recorded bound on the tiles of LoRA (kLoraTileRows rows of one adapter) of so many rows.
  static int32_t TilesBound(int32_t num_rows, int32_t num_tiles);

 private:
  // What tells recordings apart: batch size, bounds on ranks and on LoRA's tiles of rows, the
  // products beside which LoRA goes, whether sequences may have several rows, and the head.
  struct Key {
    int32_t num_rows = 0;
    int32_t rank_bound = 0;
    int32_t tiles_bound = 0;
    LoraBesideScope lora_beside = LoraBesideScope::kNone;
    bool drafts = false;
    // Adapters change the head. Recorded at first use alone, for one bound on tiles.
    bool head = false;
    auto operator<=>(const Key&) const = default;
  };
  std::vector<Key> KeysFor(int32_t num_rows, int32_t rank_max) const;
  Key KeyFor(int32_t num_rows, int32_t rank_bound, int32_t num_tiles) const;
  Key KeyFor(const HostBatch& batch) const;
  BatchUpload::Padding PaddingFor(const Key& key) const;
  // Returns the key's graph, and records it at first use. Null if there was no memory then;
  // recording is not tried again. Such steps are launched kernel by kernel. Their rows and
  // exchanges are the same, so ranks that replay the graph stay in step.
  CapturedGraph* Find(const Key& key, Stream& stream);

  Transformer& transformer_;
  const int32_t draft_tokens_max_;
  const LoraTable lora_;
  const std::vector<int32_t> sizes_;
  std::map<Key, std::optional<CapturedGraph>> graphs_;
  const float* logits_ = nullptr;
};

}  // namespace graft
