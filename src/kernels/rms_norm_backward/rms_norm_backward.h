// The gradient of RMSNorm by its input, added to what is there: the residual stream's. fp32. Each
// row depends on itself alone.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

struct RmsNormBackwardArgs {
  const void* x = nullptr;        // [num_rows, n] of x_dtype, as the forward took it
  DType x_dtype = DType::kF32;    // others on a GPU alone
  const float* weight = nullptr;  // [n]
  const void* d_out = nullptr;    // [num_rows, n] of d_dtype; on a GPU null for `normed` alone
  DType d_dtype = DType::kF32;    // or x_dtype
  float* d_x = nullptr;           // [num_rows, n], added to
  int64_t num_rows = 0;
  int64_t n = 0;
  float epsilon = 1e-6f;
  // The rest on a GPU alone. [num_rows] or null: row i's gradient belongs to row rows[i] of d_x and
  // of d_x_copy. No row twice.
  const int32_t* rows = nullptr;
  void* d_x_copy = nullptr;  // as d_x, of x_dtype, or null: what d_x becomes, rounded
  void* normed = nullptr;    // [num_rows, n] of x_dtype, or null: the forward's result, again
};

void RmsNormBackward(const RmsNormBackwardArgs& args, Stream& stream);

}  // namespace graft
