#include "layers/norm.h"

#include "kernels/rms_norm/rms_norm.h"

namespace graft {

void Norm::Run(const float* x, int64_t num_rows, DType dtype, void* out, Stream& stream) const {
  RmsNorm({.x = x,
           .x_stride = n_,
           .weight = weight_,
           .out = out,
           .out_stride = n_,
           .out_dtype = dtype,
           .num_tokens = num_rows,
           .n = n_,
           .epsilon = epsilon_},
          stream);
}

void Norm::RunAndAdd(const float* x, int64_t num_rows, float* sum, Stream& stream) const {
  RmsNorm({.x = x,
           .x_stride = n_,
           .weight = weight_,
           .out = sum,
           .out_stride = n_,
           .accumulate = true,
           .num_tokens = num_rows,
           .n = n_,
           .epsilon = epsilon_},
          stream);
}

}  // namespace graft
