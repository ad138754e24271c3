// DecodeGraphs: the launches of a decode step recorded once per batch size and bound on the ranks,
// and replayed for every batch within: any mix of adapters, ranks and lengths, as all of these are
// read from the device's memory. Replaying costs the host microseconds where launching costs
// milliseconds. GPUs only; engine thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "model/transformer.h"
#include "tensor/cuda_graph.h"

namespace graft {

class DecodeGraphs {
 public:
  // For batches of up to `sequences_max`. `lora`'s addresses are recorded; null matrices: none.
  DecodeGraphs(Transformer& transformer, int32_t sequences_max, const LoraTable& lora);

  // Called with graphs done and in total.
  using Progress = std::function<void(int64_t done, int64_t total)>;
  // Records the graphs of all batch sizes for base rows and ranks of up to `rank_max`, as far as
  // they are not; a few milliseconds each. A step that finds none records its own.
  void Record(int32_t rank_max, Stream& stream, const Progress& progress = {});

  // Runs a step of one row per sequence, all of which sample; returns Forward's logits. The batch's
  // bound on the ranks is that of its own adapters.
  const float* Run(const ForwardBatch& batch, Stream& stream);

  // The recorded batch sizes, ascending.
  static std::vector<int32_t> BatchSizes(int32_t sequences_max);
  // The recorded bound on ranks for ranks of up to `rank_max`; 0, without LoRA, for 0.
  static int32_t RankBound(int32_t rank_max);

 private:
  DeviceBatch::Padding PaddingFor(int32_t num_rows, int32_t rank_bound) const;
  CapturedGraph& Find(int32_t num_rows, int32_t rank_bound, Stream& stream);

  Transformer& transformer_;
  const LoraTable lora_;
  const std::vector<int32_t> sizes_;
  std::map<std::pair<int32_t, int32_t>, CapturedGraph> graphs_;  // by batch size and rank bound
  const float* logits_ = nullptr;
};

}  // namespace graft
