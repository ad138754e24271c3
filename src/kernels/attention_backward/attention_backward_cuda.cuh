// What the kernels of attention's backward share: their scratch, and who makes which part of it.
#pragma once

#include <cstdint>

#include "kernels/attention_backward/attention_backward.h"

namespace graft::attention_backward {

// Of each query: the logarithm of its softmax's sum, and the mean of the weights' gradients by the
// weights. bf16 has base 2 and scaled scores.
struct Params {
  AttentionBackwardArgs args;
  float* log_sums;      // [num_heads, num_rows]
  float* means;         // likewise
  bool rounds;          // d_out is fp32, and dtype is not
  Bfloat16* d_rounded;  // d_out, or room for it, for the tensor cores
  float scale_log2;
  int group;  // query heads of a key head
};

// Needs heads of 64 or 128, all rows on borders of 16 bytes.
void LaunchTensorCores(const Params& params, Stream& stream);

}  // namespace graft::attention_backward
