// How prompt attention without Hopper's instructions shares a block's 128 queries among its warps,
// and how it lays out shared memory.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_prompt_shape.cuh"

namespace graft::attention {

// kDim: dimensions that are multiplied; heads of fewer are filled up with zeros. kRowTiles: of 16
// queries, of a warp: with two, each fragment of keys and values that a warp reads from shared
// memory is multiplied twice. kKeepsQueries: in registers, else in shared memory. kTile: positions,
// counted from 0. It decides the bits of a result, the other numbers do not. kStages: tiles of the
// ring. kBlocks: of a multiprocessor, as registers allow.
template <typename TOf, int kDimOf, int kRowTilesOf, bool kKeepsQueriesOf, int kTileOf,
          int kStagesOf, int kBlocksOf>
struct MmaShape {
  using T = TOf;
  static constexpr int kDim = kDimOf;
  static constexpr int kRowTiles = kRowTilesOf;
  static constexpr int kWarpQueries = 16 * kRowTiles;
  static constexpr int kWarps = kPromptQueries / kWarpQueries;
  static constexpr int kThreads = kWarps * 32;
  static constexpr bool kKeepsQueries = kKeepsQueriesOf;
  static constexpr int kTile = kTileOf;
  static constexpr int kStages = kStagesOf;
  static constexpr int kBlocks = kBlocksOf;
  static constexpr int kChunks = kDim / 8;  // of 16 bytes, of a row
  static constexpr int kRowBytes = kDim * 2;
  static constexpr int kKeyBytes = kTile * kRowBytes;  // of a tile's keys, which values follow
  static constexpr int kStageBytes = 2 * kKeyBytes;
  static constexpr int kQueryBytes = kKeepsQueries ? 0 : kPromptQueries * kRowBytes;
  static constexpr int kSharedBytes = kQueryBytes + kStages * kStageBytes;
  static_assert(kDim % 32 == 0 && kTile % 16 == 0 && kStages >= 2);

  // What the chunks of a row are exchanged by, so that eight rows' same chunk touches all banks.
  static constexpr __host__ __device__ __forceinline__ int Swizzle(int row) {
    return kDim % 64 == 0 ? row % 8 : row / 2 % 4;
  }
  static constexpr __host__ __device__ __forceinline__ uint32_t Offset(int row, int chunk) {
    return static_cast<uint32_t>(row * kRowBytes + (chunk ^ Swizzle(row)) * 16);
  }
};

// Heads of up to 64 and 96 dimensions: two blocks of a multiprocessor, also in 100 KiB.
template <typename T>
using MmaShape64 = MmaShape<T, 64, 2, true, 32, 6, 2>;
template <typename T>
using MmaShape96 = MmaShape<T, 96, 2, false, 32, 2, 2>;
// Heads of up to 128: two blocks in 164 KiB. In 100 KiB one with twice as many warps, which keep
// their queries in registers. Tiles of 64 positions would leave the registers of 32 queries no room
// for fragments on their way.
template <typename T>
using LargeMmaShape128 = MmaShape<T, 128, 2, false, 32, 3, 2>;
template <typename T>
using SmallMmaShape128 = MmaShape<T, 128, 1, true, 32, 4, 1>;
// Heads of up to 256: one block. Larger tiles would overflow its registers.
template <typename T>
using LargeMmaShape256 = MmaShape<T, 256, 1, false, 16, 4, 1>;
template <typename T>
using SmallMmaShape256 = MmaShape<T, 256, 1, false, 16, 2, 1>;

}  // namespace graft::attention
