// LayerNorm: out = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * weight + bias, over the
// last dimension. A row depends on itself alone.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

struct LayerNormArgs {
  const float* x = nullptr;       // [num_rows, n]
  const float* weight = nullptr;  // [n]
  const float* bias = nullptr;    // [n]
  void* out = nullptr;            // as x, of out_dtype; may be x itself, in fp32
  DType out_dtype = DType::kF32;
  // As out, or null: x itself, rounded, for a backward. Neither x nor out.
  void* copy = nullptr;
  int64_t num_rows = 0;
  int64_t n = 0;
  float epsilon = 1e-5f;
};

void LayerNorm(const LayerNormArgs& args, Stream& stream);

}  // namespace graft
