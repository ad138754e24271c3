// Norm: RMSNorm or LayerNorm of the residual stream, or of what a layer returns; in models that
// have none there, nothing. Engine thread only.
#pragma once

#include <cstdint>

#include "layers/layer_spec.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

// The gradient of what a norm made, by what it read.
struct NormBack {
  const void* kept = nullptr;  // [rows, n] of dtype, by Run
  DType dtype = DType::kF32;
  const void* d_out = nullptr;  // [rows, n] of d_dtype; null: there is none, and `normed` alone
  DType d_dtype = DType::kF32;
  float* d_x = nullptr;  // [rows, n], added to; null: d_x_copy is the gradient by itself
  // As d_x, of dtype, or null: copy_scale times what d_x becomes, rounded.
  void* d_x_copy = nullptr;
  float copy_scale = 1.0f;
  void* normed = nullptr;  // [rows, n] of dtype, or null: what Run wrote, again
  // [num_rows] or null: row i's gradient belongs to row rows[i] of d_x and of d_x_copy.
  const int32_t* rows = nullptr;
  int64_t num_rows = 0;
};

class Norm {
 public:
  // Borrows `weight`, fp32 [n], of LayerNorm [2 n]; empty: there is no norm.
  Norm(const Buffer& weight, int64_t n, float epsilon, NormKind kind = NormKind::kRms)
      : weight_(weight.as<float>()), n_(n), epsilon_(epsilon), kind_(kind) {}

  bool is_there() const { return weight_ != nullptr; }

  // out = norm(x), or x itself: x fp32 [rows, n], out [rows, n] of dtype. `kept`, as out, or
  // null: x, for a backward.
  void Run(const float* x, int64_t num_rows, DType dtype, void* out, Stream& stream,
           void* kept = nullptr) const;
  // Where there is no norm, d_out is fp32, there is d_x, and what Run wrote is `kept`. A
  // LayerNorm's gradient is always added to a d_x.
  void Back(const NormBack& back, Stream& stream) const;
  // sum += RMSNorm(x): fp32 both. There must be a norm, and no LayerNorm, as below. `kept`: [rows,
  // n] of kept_dtype or null.
  void RunAndAdd(const float* x, int64_t num_rows, float* sum, Stream& stream, void* kept = nullptr,
                 DType kept_dtype = DType::kF32) const;
  // x = RMSNorm(x) of columns of rows that are `stride` elements apart, fp32. `kept` as above, rows
  // kept_stride elements apart.
  void RunInPlace(float* x, int64_t stride, int64_t num_rows, Stream& stream, void* kept = nullptr,
                  DType kept_dtype = DType::kF32, int64_t kept_stride = 0) const;

 private:
  void RunLayerNorm(const float* x, int64_t num_rows, DType dtype, void* out, Stream& stream,
                    void* kept) const;
  void BackThroughLayerNorm(const NormBack& back, Stream& stream) const;
  void BackWithoutNorm(const NormBack& back, Stream& stream) const;

  const float* weight_;
  int64_t n_;
  float epsilon_;
  NormKind kind_;
};

}  // namespace graft
