// The gradient of LayerNorm by its input, which is added to what is there: the residual stream's.
// With d = d_out weight, y = (x - mean(x)) r and r = 1 / sqrt(mean((x - mean(x))^2) + epsilon) it
// is r (d - mean(d) - y mean(d y)). Weight and bias are frozen. Sums are fp32. A row depends on
// itself alone.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

struct LayerNormBackwardArgs {
  const void* x = nullptr;        // [num_rows, n] of x_dtype, as the forward took it
  DType x_dtype = DType::kF32;    // others on a GPU alone
  const float* weight = nullptr;  // [n]
  const float* bias = nullptr;    // [n]
  const void* d_out = nullptr;    // as x, of d_dtype; null for `normed` alone
  DType d_dtype = DType::kF32;    // or x_dtype
  float* d_x = nullptr;           // as x, added to; not d_out
  int64_t num_rows = 0;
  int64_t n = 0;
  float epsilon = 1e-5f;
  // [num_rows] or null: row i's gradient belongs to row rows[i] of d_x and of d_x_copy. No row
  // twice.
  const int32_t* rows = nullptr;
  // As d_x, of x_dtype, or null: copy_scale times what d_x becomes, rounded.
  void* d_x_copy = nullptr;
  float copy_scale = 1.0f;
  // As x, or null: the forward's result, again. On the CPU these are LayerNorm's bits.
  void* normed = nullptr;
};

void LayerNormBackward(const LayerNormBackwardArgs& args, Stream& stream);

}  // namespace graft
