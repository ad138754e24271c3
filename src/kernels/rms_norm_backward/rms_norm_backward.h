// The gradient of RMSNorm by its input. It is added to what is there (the residual stream's, for a
// norm in front of a block), or written by itself: that of queries and keys per head, or over all
// heads' columns, and that of what a block returns where its output is normalised. Sums are fp32.
// Each vector depends on itself alone.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

struct RmsNormBackwardArgs {
  // [num_rows, num_heads, n] of x_dtype, as the forward took it, rows x_stride elements apart. A
  // stride of 0, also below: without gaps.
  const void* x = nullptr;
  int64_t x_stride = 0;
  DType x_dtype = DType::kF32;    // others on a GPU alone
  const float* weight = nullptr;  // [n]
  const void* d_out = nullptr;    // as x, of d_dtype; null for `normed` alone
  int64_t d_out_stride = 0;
  DType d_dtype = DType::kF32;  // or x_dtype
  float* d_x = nullptr;         // as x, added to; null: the gradient goes to d_x_copy alone
  int64_t d_x_stride = 0;       // of d_x_copy, too
  int64_t num_rows = 0;
  int32_t num_heads = 1;
  int64_t n = 0;
  float epsilon = 1e-6f;
  // [num_rows] or null: row i's gradient belongs to row rows[i] of d_x and of d_x_copy. No row
  // twice.
  const int32_t* rows = nullptr;
  // As d_x, of x_dtype, or null: copy_scale times what d_x becomes, rounded. Without d_x the
  // gradient by itself, times copy_scale; then it may be d_out, if both have one type and stride.
  void* d_x_copy = nullptr;
  float copy_scale = 1.0f;
  // [num_rows, num_heads, n] of x_dtype without gaps, or null: the forward's result, again. On the
  // CPU these are RmsNorm's bits.
  void* normed = nullptr;
};

void RmsNormBackward(const RmsNormBackwardArgs& args, Stream& stream);

}  // namespace graft
