// How a GPU's scratch is laid out. Plain arithmetic.
#pragma once

#include <cstdint>

#include "kernels/lora_gradient/lora_gradient.h"

namespace graft::lora_gradient {

inline constexpr int kColumns = 128;   // of a thread block
inline constexpr int kPlainRanks = 8;  // of a thread, where the tensor cores are not used
inline constexpr int kGroupTiles = 4;  // of 16 ranks, of a thread block's on the tensor cores

// All numbers of parts are below this. A part is up to kLoraGradientPartRows rows of one segment.
// Part p of segment s has the number row_begin / kLoraGradientPartRows + s + p, with the segment's
// row_begin. No two parts have the same number.
constexpr int64_t NumParts(int64_t num_rows, int64_t num_segments) {
  return num_rows / kLoraGradientPartRows + num_segments + 1;
}

// Tiles of columns of up to kLoraGradientProducts products.
constexpr int64_t TilesMax(int64_t columns) { return columns / kColumns + kLoraGradientProducts; }

// Thread blocks that share a tile of columns and a part, by ranks.
constexpr int64_t PlainGroups(int64_t num_matrices, int64_t rank_max) {
  return num_matrices * ((rank_max + kPlainRanks - 1) / kPlainRanks);
}

}  // namespace graft::lora_gradient
