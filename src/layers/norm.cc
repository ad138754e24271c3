#include "layers/norm.h"

#include "base/check.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm_backward/rms_norm_backward.h"
#include "kernels/scaled_add/scaled_add.h"

namespace graft {

void Norm::Run(const float* x, int64_t num_rows, DType dtype, void* out, Stream& stream,
               void* kept) const {
  if (weight_ == nullptr) {
    CHECK(kept == nullptr) << "a backward needs nothing of where there is no norm";
    return ScaledAdd({.x = x, .y = out, .y_dtype = dtype, .n = num_rows * n_}, stream);
  }
  RmsNorm({.x = x,
           .x_stride = n_,
           .weight = weight_,
           .out = out,
           .out_stride = n_,
           .out_dtype = dtype,
           .copy = kept,
           .num_tokens = num_rows,
           .n = n_,
           .epsilon = epsilon_},
          stream);
}

void Norm::Back(const NormBack& back, Stream& stream) const {
  CHECK(weight_ != nullptr) << "no norm";
  RmsNormBackward({.x = back.kept,
                   .x_dtype = back.dtype,
                   .weight = weight_,
                   .d_out = back.d_out,
                   .d_dtype = back.d_dtype,
                   .d_x = back.d_x,
                   .num_rows = back.num_rows,
                   .n = n_,
                   .epsilon = epsilon_,
                   .rows = back.rows,
                   .d_x_copy = back.d_x_copy,
                   .normed = back.normed},
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
