// For the GEMM by mma.sync (gemm_mma.cuh): its arguments, the shape of its tiles, and where the
// elements of a stage lie in shared memory.
//
// W is the first operand of each product, 16 rows of it, and x the second, 8 rows. So a few rows of
// x cost no more than they are, and one chain of products serves every number of them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/gemm/gemm_lora_items.cuh"
#include "kernels/gemm/gemm_mma_tiles.h"
#include "tensor/dtype.h"

namespace graft::mma {

// So many rows of x are visited before the next rows of W, which so come from memory once for all
// of them. The blocks that run at once then read about as much of x as of W.
inline constexpr int kRowsPerVisit = 2048;

struct Args {
  float* y;
  int64_t y_stride;
  const float* bias;
  const uint16_t* x;
  int64_t x_stride;
  const uint16_t* w;  // rows of W or, where it is read transposed, of k
  int64_t w_stride;   // a multiple of 8; zeros behind a row's elements
  int m;
  int n;
  int k;
  int num_steps;  // stages of k
  int num_row_tiles;
  int num_column_tiles;
  bool accumulate;
  float scale;          // of what is added to the old y; 1 where nothing is
  uint16_t* activated;  // [m, n / 2], or null: is written in place of y
  uint16_t* rounded;    // [m, n], or null: y, beside an activation or in its own place
  int kept_begin;       // rows of y that are written although there is an activation
  int kept_end;
};

struct LoraArgsOf : Args {
  GemmLoraArgs lora;
};

// A row of a stage is cut into pieces of 16 bytes, which change places so that the same piece of
// eight neighbouring rows lies in all banks: ldmatrix reads it at once. Rows eight further on are
// cut in the same way.
template <int kRowBytes>
__device__ __forceinline__ int PlaceOf(int row, int piece) {
  static_assert(kRowBytes == 64 || kRowBytes % 128 == 0);
  const int key = kRowBytes == 64 ? row / 2 % 4 : row % 8;
  return row * kRowBytes + (piece ^ key) * 16;
}

template <DType kTypeOf, size_t kTileOf, bool kLoraOf = false, bool kTransposedOf = false,
          bool kCopyXOf = false>
struct Shape {
  static constexpr DType kType = kTypeOf;
  using Element = std::conditional_t<kType == DType::kBF16, Bfloat16, Float16>;
  static constexpr Tile kTile = kTiles[kTileOf];
  static constexpr bool kLora = kLoraOf;              // LoRA's terms end the sums of y
  static constexpr bool kTransposed = kTransposedOf;  // W lies by rows of k
  static constexpr bool kCopyX = kCopyXOf;            // cp.async cannot read x
  using Args = std::conditional_t<kLora, LoraArgsOf, mma::Args>;

  static constexpr int kColumns = kTile.columns;
  static constexpr int kRows = kTile.rows;
  static constexpr int kDepth = kTile.depth;
  static constexpr int kStages = kTile.stages;
  static constexpr int kThreads = kTile.threads();
  static constexpr int kPieces = kDepth / 16;  // of 16 columns of k: a chain's links in a stage
  // One warp's fragments of 16 columns of y, and of 8 rows.
  static constexpr int kColumnParts = kColumns / kTile.column_warps / 16;
  static constexpr int kRowParts = kRows / kTile.row_warps / 8;
  static constexpr int kRowBytes = kDepth * 2;      // of a row of x or W in a stage
  static constexpr int kLyingBytes = kColumns * 2;  // of a row of k, where W lies by those
  static constexpr int kWBytes = kColumns * kDepth * 2;
  static constexpr int kStageBytes = kWBytes + kRows * kDepth * 2;
  // So that registers allow as many blocks as shared memory does on a card with 164 KiB of it.
  static constexpr int kBlocksMin = kTile.ring_bytes() <= (64 << 10) ? 2 : 1;

  static_assert(kPieces % 2 == 0);  // fragments of the next piece go to the other buffer
  static_assert(kColumns % (kTile.column_warps * 16) == 0 && kRows % (kTile.row_warps * 8) == 0);
  static_assert(kRowParts == 1 || kRowParts % 2 == 0);
  static_assert((kColumnParts & (kColumnParts - 1)) == 0);
  static_assert(kStageBytes % 128 == 0 && kWBytes % 128 == 0);
  static_assert((!kLora && !kTransposed) || kColumns % 64 == 0);

  static constexpr bool kCodes = false;
  static constexpr int kGroups = 1;
  static __device__ __forceinline__ int StageBytes(const mma::Args&) { return kStageBytes; }
  static __device__ __forceinline__ int WBytes(const mma::Args&) { return kWBytes; }
  static __device__ __forceinline__ int LoraStateAt(const mma::Args&) { return kTile.ring_bytes(); }

  // With an activation a tile has columns of the gate and the same columns of up, in turns of eight
  // of each, so that one thread has both sums of a pair.
  static __device__ GemmTileColumns ColumnsOf(const Args& args, int column_tile) {
    if (args.activated == nullptr) return {column_tile * kColumns, 0};
    return {column_tile * (kColumns / 2), args.n / 2};
  }
};

// This warp's place in a tile, counted in its own columns and rows.
template <typename Shape>
struct WarpPlace {
  int column;
  int row;

  __device__ WarpPlace() {
    int warp = static_cast<int>(threadIdx.x) / 32;
    if constexpr (Shape::kGroups > 1) warp %= Shape::kTile.threads() / 32;
    column = warp % Shape::kTile.column_warps * (Shape::kColumnParts * 16);
    row = warp / Shape::kTile.column_warps * (Shape::kRowParts * 8);
  }
};

template <typename Shape>
using Sums = float[Shape::kColumnParts][Shape::kRowParts][4];

}  // namespace graft::mma
