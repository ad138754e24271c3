// The gradients of SwiGLU, silu(gate) * up, by gate and up. CPU, fp32. Each element depends on its
// own gate, up and gradient alone.
#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace graft {

struct GatedActivationBackwardArgs {
  const float* gate_up = nullptr;  // [num_rows, 2 n]: gate, then up
  const float* d_out = nullptr;    // [num_rows, n]
  float* d_gate_up = nullptr;      // [num_rows, 2 n]
  int64_t num_rows = 0;
  int64_t n = 0;
};

void GatedActivationBackward(const GatedActivationBackwardArgs& args, Stream& stream);

}  // namespace graft
