// RMSNorm: out = x / sqrt(mean(x^2) + epsilon) * weight, over the last dimension. Serves the hidden
// state (num_heads 1), per-head q and k (num_heads vectors per token, side by side), and what a
// block adds to the residual stream where the model normalises that (out += ...).
#pragma once

#include <cstdint>
#include <optional>

#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

struct RmsNormArgs {
  const float* x = nullptr;  // [num_tokens, num_heads, n], tokens x_stride elements apart
  int64_t x_stride = 0;
  const float* weight = nullptr;  // [n]
  void* out = nullptr;            // as x, of out_dtype, tokens out_stride apart; may be x itself
  int64_t out_stride = 0;
  DType out_dtype = DType::kF32;
  bool accumulate = false;  // added to out, which is fp32 and not x
  // As x, of copy_dtype, tokens copy_stride apart, or null: x itself, rounded, for a backward.
  // Neither x nor out.
  void* copy = nullptr;
  // Not set: out_dtype. Any beside an fp32 out, on the CPU fp32 alone.
  std::optional<DType> copy_dtype;
  int64_t copy_stride = 0;  // 0: without gaps
  int64_t num_tokens = 0;
  int32_t num_heads = 1;
  int64_t n = 0;
  float epsilon = 1e-5f;
};

void RmsNorm(const RmsNormArgs& args, Stream& stream);

}  // namespace graft
