// The gradients of LoRA's matrices: per segment a sum of outer products over its rows. With h the
// forward's x A^T and x the gradient of y it is that of B transposed; with h that gradient times B
// and x the forward's input it is that of A. CPU, fp32. A segment's result is the same bits
// whatever other segments there are.
#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace graft {

// Rows of one adapter and the matrix that they add to. No two segments add to one matrix.
struct LoraGradientSegment {
  int32_t row_begin = 0;
  int32_t row_end = 0;
  float* gradient = nullptr;  // [rank, n]
  int32_t rank = 0;           // 0: nothing to do
  float scale = 0.0f;
};

// gradient[j] += scale * sum over the segment's rows of h[row][j] * x[row], rows in order.
struct LoraGradientArgs {
  const LoraGradientSegment* segments = nullptr;  // [num_segments]
  int32_t num_segments = 0;
  const float* h = nullptr;  // [rows, rank], rows h_stride elements apart
  int64_t h_stride = 0;
  const float* x = nullptr;  // [rows, n], rows x_stride elements apart
  int64_t x_stride = 0;
  int64_t n = 0;
};

void LoraGradient(const LoraGradientArgs& args, Stream& stream);

}  // namespace graft
