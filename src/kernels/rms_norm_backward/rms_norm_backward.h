// The gradient of RMSNorm by its input, added to what is there: the residual stream's. CPU, fp32.
// Each row depends on itself alone.
#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace graft {

struct RmsNormBackwardArgs {
  const float* x = nullptr;       // [num_rows, n], as the forward took it
  const float* weight = nullptr;  // [n]
  const float* d_out = nullptr;   // [num_rows, n]
  float* d_x = nullptr;           // [num_rows, n], added to
  int64_t num_rows = 0;
  int64_t n = 0;
  float epsilon = 1e-6f;
};

void RmsNormBackward(const RmsNormBackwardArgs& args, Stream& stream);

}  // namespace graft
