#include "layers/norm.h"

#include "base/check.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/scaled_add/scaled_add.h"

namespace graft {

void Norm::Run(const float* x, int64_t num_rows, DType dtype, void* out, Stream& stream) const {
  if (weight_ == nullptr) {
    return ScaledAdd({.x = x, .y = out, .y_dtype = dtype, .n = num_rows * n_}, stream);
  }
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
  CHECK(weight_ != nullptr) << "no norm to add";
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

void Norm::RunInPlace(float* x, int64_t stride, int64_t num_rows, Stream& stream) const {
  CHECK(weight_ != nullptr) << "no norm";
  RmsNorm({.x = x,
           .x_stride = stride,
           .weight = weight_,
           .out = x,
           .out_stride = stride,
           .num_tokens = num_rows,
           .n = n_,
           .epsilon = epsilon_},
          stream);
}

}  // namespace graft
