// PooledStates: sums of the hidden states of prompts' rows, which embeddings are made of. They are
// formed in the order of the rows, so that chunks change no bit. Engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "model/transformer.h"
#include "tensor/allocations.h"
#include "tensor/buffer.h"
#include "tensor/cuda_memory.h"

namespace graft {

class PooledStates {
 public:
  PooledStates(Transformer& transformer, int32_t sequences_max, const Device& device);
  static BytesNeeded BytesFor(int32_t step_tokens_max, int64_t hidden, const Device& device);

  // The slot has another sequence from now on.
  void Start(int32_t slot) { sums_[static_cast<size_t>(slot)].clear(); }
  // Adds rows of the last step to the slot's sums, and waits for them. Whether all sums are finite.
  bool Add(int32_t slot, int32_t first_row, int32_t num_rows, Stream& stream);
  // The slot's sums over `count`, which are gone then.
  std::vector<float> Take(int32_t slot, double count);

 private:
  Transformer& transformer_;
  std::vector<std::vector<double>> sums_;  // [sequences_max]; empty: not pooled
  PinnedBuffer rows_;                      // int32_t [step_tokens_max]
  PinnedBuffer host_sums_;                 // double [hidden]
  Buffer device_sums_;                     // double [hidden], on a GPU
};

}  // namespace graft
