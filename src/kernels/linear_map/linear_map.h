// LinearMap: y = x M + b, fp32, and the gradient of the map: the second kind of encoder of
// "Dynamic LoRA serving system for offline context learning" (Cao and Tan), section 3. The map's
// rows lie under each other and the bias is the last one. A row of y depends on its own row of x
// alone.
#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace graft {

struct LinearMapArgs {
  const float* x = nullptr;    // [num_rows, k]
  const float* map = nullptr;  // [k + 1, n]
  float* y = nullptr;          // [num_rows, n]
  int64_t num_rows = 0;
  int64_t k = 0;
  int64_t n = 0;
};
void LinearMap(const LinearMapArgs& args, Stream& stream);

// d_map[j] += the sum of x[row][j] * d_y[row], and the last one that of d_y[row], rows in order.
struct LinearMapGradientArgs {
  const float* x = nullptr;    // [num_rows, k]
  const float* d_y = nullptr;  // [num_rows, n]
  float* d_map = nullptr;      // [k + 1, n]
  int64_t num_rows = 0;
  int64_t k = 0;
  int64_t n = 0;
};
void LinearMapGradient(const LinearMapGradientArgs& args, Stream& stream);

}  // namespace graft
