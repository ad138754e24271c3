// The middle of a plain MLP: out = f(x), of each element by itself. f is GELU, x Phi(x), where Phi
// is the normal distribution's; GELU by its tanh formula and silu, which GatedActivation describes;
// or relu, max(x, 0).
#pragma once

#include <cstdint>

#include "kernels/gated_activation/gated_activation.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

struct ActivateArgs {
  Activation activation = Activation::kGeluTanh;
  const float* x = nullptr;  // [n]
  void* out = nullptr;       // [n] of out_dtype
  DType out_dtype = DType::kF32;
  void* copy = nullptr;  // as out, or null: x itself, rounded, for a backward
  int64_t n = 0;
};

void Activate(const ActivateArgs& args, Stream& stream);

}  // namespace graft
