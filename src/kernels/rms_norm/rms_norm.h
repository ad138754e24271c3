// RMSNorm: out = x / sqrt(mean(x^2) + epsilon) * weight, over the last dimension. Serves the hidden
// state (num_heads 1), per-head q and k (num_heads vectors per token, side by side), and what a
// block adds to the residual stream where the model normalises that (out += ...). Where ranks have
// a part of each vector, SumSquares comes first, and the ranks' sum of what it says.
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
  // Where x is a part of a longer vector, of which several ranks have the parts: the sum of the
  // squares of all its n_whole elements, of each token, squares_stride apart. There is one head
  // then, out is fp32, and there is neither a copy nor a sum. Null: x is all of it.
  const float* squares = nullptr;
  int64_t squares_stride = 1;
  int64_t n_whole = 0;
};

void RmsNorm(const RmsNormArgs& args, Stream& stream);

// What such parts' norms need of each part.
struct SumSquaresArgs {
  const float* x = nullptr;  // [num_tokens, n], tokens x_stride elements apart
  int64_t x_stride = 0;
  float* sums = nullptr;  // [num_tokens], sums_stride apart
  int64_t sums_stride = 1;
  int64_t num_tokens = 0;
  int64_t n = 0;  // 0: the sums are 0
};

void SumSquares(const SumSquaresArgs& args, Stream& stream);

}  // namespace graft
