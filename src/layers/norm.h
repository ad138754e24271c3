// Norm: RMSNorm of the residual stream, or of what a layer returns. Engine thread only.
#pragma once

#include <cstdint>

#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

class Norm {
 public:
  // Borrows `weight`, fp32 [n].
  Norm(const Buffer& weight, int64_t n, float epsilon)
      : weight_(weight.as<float>()), n_(n), epsilon_(epsilon) {}

  // out = RMSNorm(x): x fp32 [rows, n], out [rows, n] of dtype.
  void Run(const float* x, int64_t num_rows, DType dtype, void* out, Stream& stream) const;
  // sum += RMSNorm(x): fp32 both.
  void RunAndAdd(const float* x, int64_t num_rows, float* sum, Stream& stream) const;

 private:
  const float* weight_;
  int64_t n_;
  float epsilon_;
};

}  // namespace graft
