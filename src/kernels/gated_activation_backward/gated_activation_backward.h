// The gradients of a gated MLP's middle, f(gate) * up, by gate and up, where f is silu (SwiGLU) or
// GELU by its tanh formula (GeGLU, see gated_activation.h). Each element depends on its own gate,
// up and gradient alone.
#pragma once

#include <cstdint>

#include "kernels/gated_activation/gated_activation.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

struct GatedActivationBackwardArgs {
  Activation activation = Activation::kSilu;
  DType dtype = DType::kF32;      // others on a GPU alone
  const void* gate_up = nullptr;  // [num_rows, 2 n] of dtype: gate, then up
  const void* d_out = nullptr;    // [num_rows, n] of d_dtype
  DType d_dtype = DType::kF32;    // or dtype
  void* d_gate_up = nullptr;      // [num_rows, 2 n] of dtype
  int64_t num_rows = 0;
  int64_t n = 0;
  // [num_rows, n] of dtype, or null: what the forward made of gate_up, again. On the CPU these are
  // GatedActivation's bits.
  void* activated = nullptr;
};

void GatedActivationBackward(const GatedActivationBackwardArgs& args, Stream& stream);

}  // namespace graft
