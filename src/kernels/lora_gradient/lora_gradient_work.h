// How a GPU's scratch is laid out. Plain arithmetic.
#pragma once

#include <cstdint>

#include "kernels/lora_gradient/lora_gradient.h"

namespace graft::lora_gradient {

// Ranks are filled up with zeros to whole tiles of the tensor cores.
constexpr int64_t RankStride(int64_t rank_max) { return (rank_max + 15) / 16 * 16; }

// Parts of kLoraGradientPartRows rows, each of one segment: part p of segment s, whose rows begin
// at row_begin, is number row_begin / kLoraGradientPartRows + s + p. No two have one number.
constexpr int64_t NumParts(int64_t num_rows, int64_t num_segments) {
  return num_rows / kLoraGradientPartRows + num_segments + 1;
}

// h, summed up and rounded, comes first: [num_rows, RankStride] of x_dtype, room for floats.
constexpr int64_t SumsBegin(int64_t num_rows, int64_t rank_max) {
  return (num_rows * RankStride(rank_max) + 3) / 4 * 4;
}

}  // namespace graft::lora_gradient
