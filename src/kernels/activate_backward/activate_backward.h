// The gradient of a plain MLP's middle, f(x) as Activate has it, by x: d_x = d_out f'(x). relu's at
// 0 is 0. Each element depends on its own x and gradient alone.
#pragma once

#include <cstdint>

#include "kernels/gated_activation/gated_activation.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

struct ActivateBackwardArgs {
  Activation activation = Activation::kGeluTanh;
  DType dtype = DType::kF32;    // others on a GPU alone
  const void* x = nullptr;      // [n] of dtype
  const void* d_out = nullptr;  // [n] of d_dtype
  DType d_dtype = DType::kF32;  // or dtype
  void* d_x = nullptr;          // [n] of dtype; neither x nor d_out
  int64_t n = 0;
  // [n] of dtype, or null: what the forward made of x, again. On the CPU these are Activate's bits.
  void* activated = nullptr;
};

void ActivateBackward(const ActivateBackwardArgs& args, Stream& stream);

}  // namespace graft
