// Norm: RMSNorm of the residual stream, or of what a layer returns; in models that have none there,
// nothing. Engine thread only.
#pragma once

#include <cstdint>

#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

class Norm {
 public:
  // Borrows `weight`, fp32 [n]; empty: there is no norm.
  Norm(const Buffer& weight, int64_t n, float epsilon)
      : weight_(weight.as<float>()), n_(n), epsilon_(epsilon) {}

  // out = RMSNorm(x), or x itself: x fp32 [rows, n], out [rows, n] of dtype.
  void Run(const float* x, int64_t num_rows, DType dtype, void* out, Stream& stream) const;
  // sum += RMSNorm(x): fp32 both. There must be a norm.
  void RunAndAdd(const float* x, int64_t num_rows, float* sum, Stream& stream) const;
  // x = RMSNorm(x) of columns of rows that are `stride` elements apart, fp32.
  void RunInPlace(float* x, int64_t stride, int64_t num_rows, Stream& stream) const;

 private:
  const float* weight_;
  int64_t n_;
  float epsilon_;
};

}  // namespace graft
