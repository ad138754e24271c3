// For Hopper's GEMM kernel (gemm_hopper.cuh): its arguments, the shape of its tiles, the ring of
// stages in shared memory, and the order in which a block takes its tiles.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/common/cuda_tma.cuh"
#include "kernels/gemm/gemm_hopper_delta.cuh"
#include "kernels/gemm/gemm_hopper_lora.cuh"
#include "kernels/gemm/gemm_hopper_silu.cuh"
#include "tensor/dtype.h"

namespace graft {

inline constexpr int kBoxColumns = 64;  // two-byte elements: the width of a swizzled row
inline constexpr int kGroupThreads = 128;
inline constexpr int kTransposedGroupBytes = kBoxColumns * 128;  // of 64 columns of y
inline constexpr int kGemmStagesMax = 30;
// The barriers lie in shared memory before the ring: those of x and W, and those of LoRA.
inline constexpr int kGemmBarrierBytes = 1024;
static_assert(kGemmStagesMax * 16 + kLoraBarrierBytes + 16 <= kGemmBarrierBytes);

// Row tiles that are visited before the next rows of W. The second-level cache holds so much of x.
inline constexpr int kGemmRowTilesPerVisit = 16;

struct HopperGemmArgs {
  float* y;
  int64_t y_stride;
  const float* bias;
  const void* x;  // for shapes that read x without the copy engine
  int64_t x_stride;
  int m;
  int n;
  int k;
  int num_steps;         // stages per tile
  int num_row_tiles;     // tiles of x's rows
  int num_column_tiles;  // tiles of W's rows
  int num_stages;
  int x_box_bytes;  // 128 times the rows of a box of x, which are 8 to kRows
  bool accumulate;
  float scale;                // of what is added to the old y; 1 where nothing is
  bool quads;                 // y may be written sixteen bytes at a time
  bool reads_once;            // no tile of W is read twice
  GemmActivation activation;  // if set, is written in place of y
  GemmDelta delta;            // added last
  GemmPace pace;              // used together with a delta
};

struct HopperLoraGemmArgs : HopperGemmArgs {
  int kept_begin;  // rows of y that are written although there is an activation
  int kept_end;
  uint16_t* rounded;  // [m, n], or null: y, beside an activation or in its own place
  GemmLoraArgs lora;
};

// kGroups: the warpgroups that multiply, each with 64 rows of x or, in a swapped tile, of W.
// kWidth: a tile's rows of the other operand. Rows of x may be any multiple of 16, so that little
// of a prompt is padding. kBoxes: boxes per operand and stage. kBlocks: thread blocks of a cluster.
// They work on neighbouring tiles and share either x (the same rows, different columns of y) or W
// (kShareW). Each loads its part of the shared operand into all of them.
template <DType kTypeOf, int kGroupsOf, int kWidthOf, int kBoxesOf, int kBlocksOf, bool kShareWOf,
          bool kSwappedOf = false, bool kCopyXOf = false, bool kLoraOf = false,
          bool kTransposedOf = false>
struct HopperGemmShape {
  static constexpr DType kType = kTypeOf;
  static constexpr int kGroups = kGroupsOf;
  static constexpr int kWidth = kWidthOf;
  static constexpr bool kSwapped = kSwappedOf;
  static constexpr int kRows = kSwapped ? kWidth : kGroups * 64;
  static constexpr int kColumns = kSwapped ? kGroups * 64 : kWidth;
  static constexpr int kBoxes = kBoxesOf;
  static constexpr int kBlocks = kBlocksOf;
  static constexpr bool kShareW = kShareWOf;
  static constexpr bool kCopyX = kCopyXOf;  // the copy engine cannot read x
  static constexpr bool kLora = kLoraOf;    // LoRA's terms end the sums of y
  // W lies by rows of k. A box has 64 of these, by 64 columns of y after the other.
  static constexpr bool kTransposed = kTransposedOf;
  using Args = std::conditional_t<kLora, HopperLoraGemmArgs, HopperGemmArgs>;
  // Where the sums need many registers, the producer's warpgroup gives up most of its own.
  static constexpr bool kMovesRegisters = kGroups > 1;
  // What each of the producer's threads keeps of 65,536 registers, and what a multiplying one gets.
  static constexpr int kFewRegisters = kGroups == 3 ? 56 : 40;
  static constexpr int kManyRegisters = kGroups == 3 ? 152 : 232;
  using Lora = GemmLoraShape<kRows, kColumns, kGroups * 4, kSwapped>;
  static constexpr int kHelpers = kMovesRegisters ? 4 : kLora ? 1 + kLoraLoaders : 1;  // warps
  static constexpr int kThreads = kGroups * kGroupThreads + kHelpers * 32;
  static constexpr int kWBoxBytes = kColumns * 128;
  // With an activation, half of a tile's columns are the gate's and half are up's, in whole pieces
  // of eight columns. They lie as two halves (gemm_hopper_silu.cuh) or, in a swapped tile, piece by
  // piece in turns (gemm_hopper_swapped_store.cuh).
  static constexpr bool kActivates = kColumns % 16 == 0;
  // Memory beside the ring for gemm_hopper_store.cuh: 16 rows of 32 columns of each warp.
  static constexpr int kStagingBytes = !kSwapped && kGroups > 1 ? kGroups * 4 * 16 * 128 : 0;
  // In a cluster of two blocks that share W, each block loads half of every box of W. With an
  // activation one block's half is the gate's rows and the other's is up's; in a swapped tile each
  // half has some of both. In larger clusters the blocks load whole boxes in turn.
  static constexpr bool kSplitsW = kShareW && kBlocks == 2;
  // Where x is shared, each block loads its part of the rows of every box.
  static constexpr bool kSplitsX = !kShareW && kBlocks > 1;
  static_assert(!kSplitsW || kColumns % (8 * kBlocks) == 0);
  static_assert(!kSplitsX || kRows % (8 * kBlocks) == 0);
  static_assert(!kTransposed || (!kSwapped && !kCopyX && (kBlocks == 1 || kSplitsW) &&
                                 kColumns % (64 * kBlocks) == 0));
  static_assert(!kCopyX || kBlocks == 1);
  static_assert(!kSwapped || (kRows % 16 == 0 && !kCopyX && kBlocks <= 2));

  static __device__ GemmTileColumns ColumnsOf(const Args& args, int column_tile) {
    if (args.activation.out == nullptr) return {column_tile * kColumns, 0};
    return {column_tile * (kColumns / 2), kSwapped ? args.n / 2 : (args.n - kColumns) / 2};
  }
};

#if defined(GRAFT_HOPPER)

template <typename Shape>
struct HopperGemmRing {
  uint32_t full;     // one barrier per stage: the stage's boxes have arrived
  uint32_t empty;    // one barrier per stage: every block of the cluster has multiplied it
  uint32_t x;        // [stage][box][x_box_bytes]
  uint32_t staging;  // kStagingBytes
  uint32_t w;  // [stage][box][kWBoxBytes]. If boxes of x have fewer than kRows rows, products read
               // on into the next box or here, for rows of y that are not stored.
  GemmLoraRing<typename Shape::Lora> lora;

  __device__ HopperGemmRing(const typename Shape::Args& args, char* shared) {
    full = SharedAddress(shared);
    empty = full + kGemmStagesMax * 8;
    x = full + kGemmBarrierBytes;
    w = x + args.num_stages * Shape::kBoxes * args.x_box_bytes;
    staging = w + args.num_stages * Shape::kBoxes * Shape::kWBoxBytes;
    if constexpr (Shape::kLora) {
      lora.barriers = empty + kGemmStagesMax * 8;
      lora.stages = staging + Shape::kStagingBytes;
      const uint32_t table = lora.stages + (Shape::Lora::kStageBytes << args.lora.num_stages_log2);
      lora.table = reinterpret_cast<GemmLoraTable<Shape::kRows>*>(shared + (table - full));
      lora.num_stages_log2 = args.lora.num_stages_log2;
    }
  }

  __device__ uint32_t XReady() const { return full + kGemmBarrierBytes - 8; }
  __device__ uint32_t DeltaThere() const { return full + kGemmBarrierBytes - 16; }
  __device__ uint32_t Full(int stage) const { return full + stage * 8; }
  __device__ uint32_t Empty(int stage) const { return empty + stage * 8; }
  __device__ uint32_t X(const HopperGemmArgs& args, int stage, int box) const {
    return x + (stage * Shape::kBoxes + box) * args.x_box_bytes;
  }
  __device__ uint32_t W(int stage, int box) const {
    return w + (stage * Shape::kBoxes + box) * Shape::kWBoxBytes;
  }
};

// Walks over this block's tiles and, inside each tile, over k, in the order of the ring's stages.
template <typename Shape>
struct HopperGemmWalk {
  int item;
  int num_items;
  int step = 0;
  int stage = 0;
  uint32_t lap = 0;
  int row_tile = 0;
  int column_tile = 0;

  __device__ explicit HopperGemmWalk(const HopperGemmArgs& args)
      : item(static_cast<int>(blockIdx.x) / Shape::kBlocks) {
    num_items = RowItems(args) * ColumnItems(args);
    Locate(args);
  }
  static __device__ int RowItems(const HopperGemmArgs& args) {
    return Shape::kShareW ? (args.num_row_tiles + Shape::kBlocks - 1) / Shape::kBlocks
                          : args.num_row_tiles;
  }
  static __device__ int ColumnItems(const HopperGemmArgs& args) {
    return Shape::kShareW ? args.num_column_tiles
                          : (args.num_column_tiles + Shape::kBlocks - 1) / Shape::kBlocks;
  }
  __device__ bool Done() const { return item >= num_items; }
  __device__ int NextItem() const { return item + static_cast<int>(gridDim.x) / Shape::kBlocks; }
  __device__ bool IsLast() const { return NextItem() >= num_items; }
  __device__ void Locate(const HopperGemmArgs& args) {
    const int column_items = ColumnItems(args);
    const int visit = item / (kGemmRowTilesPerVisit * column_items);
    const int first = visit * kGemmRowTilesPerVisit;
    const int rows = min(kGemmRowTilesPerVisit, RowItems(args) - first);
    const int rest = item - first * column_items;
    row_tile = first + rest % rows;
    column_tile = rest / rows;
    if constexpr (Shape::kBlocks > 1) {
      int& shared_out = Shape::kShareW ? row_tile : column_tile;
      shared_out = shared_out * Shape::kBlocks + static_cast<int>(ClusterBlockRank());
    }
  }
  __device__ void NextStage(const HopperGemmArgs& args) {
    if (++stage == args.num_stages) {
      stage = 0;
      ++lap;
    }
  }
  __device__ void NextTile(const HopperGemmArgs& args) {
    step = 0;
    item = NextItem();
    if (!Done()) Locate(args);
  }
  __device__ void Next(const HopperGemmArgs& args) {
    NextStage(args);
    if (++step == args.num_steps) NextTile(args);
  }
};

#endif  // GRAFT_HOPPER

}  // namespace graft
