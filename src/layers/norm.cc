#include "layers/norm.h"

#include "base/check.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/layer_norm_backward/layer_norm_backward.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm_backward/rms_norm_backward.h"
#include "kernels/scaled_add/scaled_add.h"

namespace graft {

void Norm::Run(const float* x, int64_t num_rows, DType dtype, void* out, Stream& stream,
               void* kept) const {
  if (weight_ == nullptr) {
    for (void* to : {out, kept}) {
      if (to == nullptr) continue;
      ScaledAdd({.x = x, .y = to, .y_dtype = dtype, .n = num_rows * n_}, stream);
    }
    return;
  }
  if (kind_ == NormKind::kLayer) return RunLayerNorm(x, num_rows, dtype, out, stream, kept);
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

void Norm::RunLayerNorm(const float* x, int64_t num_rows, DType dtype, void* out, Stream& stream,
                        void* kept) const {
  LayerNorm({.x = x,
             .weight = weight_,
             .bias = weight_ + n_,
             .out = out,
             .out_dtype = dtype,
             .copy = kept,
             .num_rows = num_rows,
             .n = n_,
             .epsilon = epsilon_},
            stream);
}

void Norm::Back(const NormBack& back, Stream& stream) const {
  if (weight_ == nullptr) return BackWithoutNorm(back, stream);
  if (kind_ == NormKind::kLayer) return BackThroughLayerNorm(back, stream);
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
                   .copy_scale = back.copy_scale,
                   .normed = back.normed},
                  stream);
}

void Norm::BackThroughLayerNorm(const NormBack& back, Stream& stream) const {
  LayerNormBackward({.x = back.kept,
                     .x_dtype = back.dtype,
                     .weight = weight_,
                     .bias = weight_ + n_,
                     .d_out = back.d_out,
                     .d_dtype = back.d_dtype,
                     .d_x = back.d_x,
                     .num_rows = back.num_rows,
                     .n = n_,
                     .epsilon = epsilon_,
                     .rows = back.rows,
                     .d_x_copy = back.d_x_copy,
                     .copy_scale = back.copy_scale,
                     .normed = back.normed},
                    stream);
}

void Norm::BackWithoutNorm(const NormBack& back, Stream& stream) const {
  const int64_t n = back.num_rows * n_;
  CHECK(back.rows == nullptr && back.d_dtype == DType::kF32 && back.d_x != nullptr);
  CHECK(back.normed == nullptr) << "it is `kept`";
  if (back.d_out == nullptr) return;
  ScaledAdd({.x = static_cast<const float*>(back.d_out), .y = back.d_x, .n = n, .accumulate = true},
            stream);
  if (back.d_x_copy == nullptr) return;
  ScaledAdd(
      {.x = back.d_x, .y = back.d_x_copy, .y_dtype = back.dtype, .n = n, .scale = back.copy_scale},
      stream);
}

void Norm::RunAndAdd(const float* x, int64_t num_rows, float* sum, Stream& stream, void* kept,
                     DType kept_dtype) const {
  CHECK(weight_ != nullptr && kind_ == NormKind::kRms) << "no norm to add";
  RmsNorm({.x = x,
           .x_stride = n_,
           .weight = weight_,
           .out = sum,
           .out_stride = n_,
           .accumulate = true,
           .copy = kept,
           .copy_dtype = kept_dtype,
           .num_tokens = num_rows,
           .n = n_,
           .epsilon = epsilon_},
          stream);
}

void Norm::RunInPlace(float* x, int64_t stride, int64_t num_rows, Stream& stream, void* kept,
                      DType kept_dtype, int64_t kept_stride) const {
  CHECK(weight_ != nullptr && kind_ == NormKind::kRms) << "no norm";
  RmsNorm({.x = x,
           .x_stride = stride,
           .weight = weight_,
           .out = x,
           .out_stride = stride,
           .copy = kept,
           .copy_dtype = kept_dtype,
           .copy_stride = kept_stride,
           .num_tokens = num_rows,
           .n = n_,
           .epsilon = epsilon_},
          stream);
}

}  // namespace graft
