// For the GEMM by mma.sync (gemm_mma.cuh) of weights that are codes: its arguments, and the shape
// of its tiles. A stage has 128 columns of k: a brick of each of the tile's strips (gemm_bricks.h),
// one after the other, and x as the GEMM of bf16 has it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/gemm/gemm_codes_tiles.h"
#include "kernels/gemm/gemm_mma_shape.cuh"

namespace graft::codes {

struct CodesArgs : mma::Args {
  const char* bricks;
  int64_t strip_bytes;
  int brick_bytes;
  int entry_bytes;  // of a row's scale, with its zero point
  int row_entries;  // scales of a row of a brick
  int unit_shift;   // a unit's scale is entry (unit >> unit_shift)
  int stage_bytes;  // a multiple of 128
  int range_steps;  // stages of k in the first range
  bool has_zero_points;
};

struct CodesLoraArgs : CodesArgs {
  GemmLoraArgs lora;
};

// kGroupsOf: groups of warps, each of which sums over a range of k. Tiles from kFirstWide on have
// one group, which sums over the ranges in turn.
template <Kind kKindOf, size_t kTileOf, bool kLoraOf, bool kCopyXOf, int kGroupsOf = 1>
struct Shape {
  static constexpr Kind kKind = kKindOf;
  static constexpr int kGroups = kGroupsOf;
  static constexpr bool kRangesInTurn = kTileOf >= kFirstWide;  // else a range is a group's
  static constexpr bool kCodes = true;
  static constexpr DType kType = DType::kBF16;
  using Element = Bfloat16;
  static constexpr mma::Tile kTile = MmaTileOf(kKind, kTileOf, kGroups);
  static constexpr bool kLora = kLoraOf;
  static constexpr bool kTransposed = false;
  static constexpr bool kCopyX = kCopyXOf;
  using Args = std::conditional_t<kLora, CodesLoraArgs, CodesArgs>;

  static constexpr int kColumns = kTile.columns;
  static constexpr int kRows = kTile.rows;
  static constexpr int kDepth = kTile.depth;
  static constexpr int kStages = kTile.stages;
  static constexpr int kThreads = kTile.threads() * kGroups;
  static constexpr int kPieces = kDepth / 16;
  static constexpr int kColumnParts = kColumns / kTile.column_warps / 16;
  static constexpr int kRowParts = kRows / kTile.row_warps / 8;
  static constexpr int kRowBytes = kDepth * 2;
  static constexpr int kLyingBytes = kColumns * 2;
  static constexpr int kXBytes = kRows * kRowBytes;  // of a group's x
  static constexpr int kBlocksMin = 1;

  static constexpr int kBits = BitsOf(kKind);
  static constexpr int kUnitPieces = kBits == 4 ? 2 : 1;  // of 16 columns, in a word
  static constexpr int kUnits = kPieces / kUnitPieces;
  static constexpr int kCodeBytes = 128 * kBits;  // of a brick
  static constexpr int kStrips = kColumns / 8;
  // Where scales are narrow all sizes are constants.
  static constexpr bool kWide = IsWide(kKind);
  static constexpr int kNarrowBrickBytes = kCodeBytes + 16;
  static constexpr int kNarrowStageBytes =
      (kGroups * kStrips * kNarrowBrickBytes + 127) / 128 * 128 + kGroups * kXBytes;
  // NF4: the two numbers of each byte, in copies that lie side by side.
  static constexpr int kTableCopies = kKind == Kind::kNormal4 ? kTiles[kTileOf].table_copies : 0;
  static constexpr int kTableBytes = 256 * 8 * kTableCopies;

  static_assert(kPieces == 8 && kStages >= 2);
  static_assert(kColumns % (kTile.column_warps * 16) == 0 && kRows % (kTile.row_warps * 8) == 0);
  static_assert(kRowParts == 1 || kRowParts % 2 == 0);
  static_assert(kGroups * kStrips % (kThreads / 32) == 0 && (kGroups == 1 || !kLora));
  static_assert(!kLora || kColumns % 64 == 0);

  // A stage has the bricks of all groups, and on a border of 128 bytes behind them x of all.
  static __device__ __forceinline__ int StageBytes(const CodesArgs& args) {
    return kWide ? args.stage_bytes : kNarrowStageBytes;
  }
  static __device__ __forceinline__ int WBytes(const CodesArgs& args) {
    return StageBytes(args) - kGroups * kXBytes;
  }
  static __device__ __forceinline__ int BrickBytes(const CodesArgs& args) {
    return kWide ? args.brick_bytes : kNarrowBrickBytes;
  }
  static __device__ __forceinline__ int TableAt(const CodesArgs& args) {
    return kStages * StageBytes(args);
  }
  static __device__ __forceinline__ int LoraStateAt(const CodesArgs& args) {
    return TableAt(args) + kTableBytes;
  }

  static __device__ GemmTileColumns ColumnsOf(const mma::Args& args, int column_tile) {
    if (args.activated == nullptr) return {column_tile * kColumns, 0};
    return {column_tile * (kColumns / 2), args.n / 2};
  }
};

}  // namespace graft::codes
