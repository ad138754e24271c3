// SwiGLU's middle: out = silu(gate) * up, silu(x) = x / (1 + exp(-x)).
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

struct SiluMulArgs {
  const float* gate_up = nullptr;  // [num_tokens, 2 n]: gate, then up
  void* out = nullptr;             // [num_tokens, n] of out_dtype
  DType out_dtype = DType::kF32;
  int64_t num_tokens = 0;
  int64_t n = 0;
};

void SiluMul(const SiluMulArgs& args, Stream& stream);

}  // namespace graft
