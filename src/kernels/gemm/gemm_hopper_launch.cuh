// Launches Hopper's GEMM kernel (gemm_hopper.cuh) with one tile: the maps of its operands, its
// division of shared memory, its clusters. There are many such kernels and they are slow to
// compile, so each gemm_hopper_*.cu instantiates some of them.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "kernels/common/cuda_vector.cuh"
#include "kernels/gemm/gemm_hopper.cuh"
#include "kernels/gemm/gemm_hopper_tiles.h"
#include "kernels/lora/lora_beside.h"

namespace graft::hopper {

// If x takes next to no room, a ring of this size streams W faster than the largest possible one.
inline constexpr int kThinRowsMax = 8;
inline constexpr int kThinSharedBytes = 150 << 10;

// The next constants apply to a product with LoRA beside it. At least so many multiprocessors are
// left to LoRA. With 28, the tiles become 120 rows of W for 12288 and 224 for 22016, and these
// stream as fast as the tiles for the whole card.
inline constexpr int kLoraProcessorsMin = 28;
// Shared memory that is left to the small kernels that follow, so that they can begin early.
inline constexpr int kSparedBesideLora = 8 << 10;
// The bytes that a block has on its way from memory at a time, and those that memory delivers to
// the whole card per cycle.
inline constexpr int kBytesOnWay = 64 << 10;
inline constexpr int64_t kCardBytesPerCycle = 2400;

// A map of a matrix with `columns` columns, in boxes of 64 columns. `dimensions` describes the rows
// from the inside out: how many, how many rows apart, and how many of them a box has.
struct MapDimension {
  int64_t size;
  int64_t stride;
  int box;
};
CUtensorMap MakeMap(const void* data, DType dtype, int64_t columns, int64_t column_stride,
                    std::initializer_list<MapDimension> dimensions);

// The map of W. A box has the W rows of a tile, or this block's share of them: neighbouring rows;
// with an activation gate's and up's rows side by side; in a swapped tile with an activation eight
// of each in turns.
template <typename Shape>
CUtensorMap MakeWMap(const GemmCudaArgs& args) {
  const int box_rows = Shape::kSplitsW ? Shape::kColumns / Shape::kBlocks : Shape::kColumns;
  const auto make = [&](std::initializer_list<MapDimension> dimensions) {
    return MakeMap(args.w, args.dtype, args.k, args.w_stride, dimensions);
  };
  if constexpr (Shape::kTransposed) {
    CHECK(args.gemm.epilogue.activated == nullptr);
    return MakeMap(args.w, args.dtype, args.n, args.w_stride, {{args.k, 1, kBoxColumns}});
  }
  const int64_t half = args.n / 2;
  if (args.gemm.epilogue.activated == nullptr) return make({{args.n, 1, box_rows}, {1, args.n, 1}});
  if (Shape::kSwapped) return make({{8, 1, 8}, {2, half, 2}, {half / 8, 8, box_rows / 16}});
  return make({{half, 1, Shape::kColumns / 2}, {2, half, box_rows == Shape::kColumns ? 2 : 1}});
}

// The map of what is added to y (LoRA's delta): boxes of all m rows by `box_columns`.
CUtensorMap MakeDeltaMap(const GemmCudaArgs& args, int box_columns);

// What one device allows.
struct DeviceLimits {
  int shared_bytes = 0;
  int num_processors = 0;
};

DeviceLimits LimitsOf(const Device& device);

inline bool IsOnBorder(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

GemmLoraArgs LoraOf(const GemmArgs& gemm, int64_t n);

// How many clusters of `num_blocks` run at once. The blocks of a cluster must be neighbours, so
// some of a card's multiprocessors stay unused. Whatever its tile, a block takes a whole
// multiprocessor.
int MaxClusters(int num_blocks, int num_processors);

// The division of a block's shared memory.
struct SharedPlan {
  int num_stages = 0;
  int num_lora_stages_log2 = 0;
  int bytes = 0;
};

// Gives the ring of x and W what shared memory has left beside plan.bytes of other things.
template <typename Shape>
void PlanStages(const HopperGemmArgs& args, int shared_bytes_max, SharedPlan& plan) {
  const int stage_bytes = Shape::kBoxes * (args.x_box_bytes + Shape::kWBoxBytes);
  const int ring_bytes_max = shared_bytes_max - plan.bytes;
  const int ring_bytes = args.m <= kThinRowsMax
                             ? std::min(ring_bytes_max, kThinSharedBytes - kGemmBarrierBytes)
                             : ring_bytes_max;
  plan.num_stages = std::min(ring_bytes / stage_bytes, kGemmStagesMax);
  plan.bytes += plan.num_stages * stage_bytes;
}

// LoRA's ring has one stage, and more where the ring of x and W leaves room.
template <typename Shape>
SharedPlan PlanShared(const HopperGemmArgs& args, int shared_bytes_max) {
  SharedPlan plan;
  plan.bytes = kGemmBarrierBytes + Shape::kStagingBytes;
  if constexpr (Shape::kLora) {
    constexpr int kStageBytes = Shape::Lora::kStageBytes;
    plan.bytes += Shape::Lora::kTableBytes + kStageBytes;
    PlanStages<Shape>(args, shared_bytes_max, plan);
    int& log2 = plan.num_lora_stages_log2;
    for (; log2 < kLoraStagesMaxLog2 && plan.bytes + (kStageBytes << log2) <= shared_bytes_max;
         ++log2) {
      plan.bytes += kStageBytes << log2;
    }
  } else {
    PlanStages<Shape>(args, shared_bytes_max, plan);
  }
  return plan;
}

// Sets what a product with LoRA beside it needs. `num_blocks`: the blocks of the product.
template <typename Shape>
void SetDelta(const GemmCudaArgs& args, int64_t num_blocks, HopperGemmArgs& out) {
  CHECK(Shape::kGroups == 1 && Shape::kBlocks == 1 && !Shape::kLora && !Shape::kSwapped);
  constexpr int kStageBytes = Shape::kBoxes * Shape::kWBoxBytes;
  const LoraBeside& beside = args.gemm.epilogue.lora->beside;
  out.delta = {.values = beside.delta, .x_ready = beside.words, .step = beside.step};
  const bool activates = args.gemm.epilogue.activated != nullptr;
  if (!Shape::kCopyX && args.gemm.m <= 32 * Shape::kBoxes && IsOnBorder(beside.delta) &&
      (activates ? out.activation.vectors : out.quads)) {
    const int box_columns = Shape::kColumns / (activates ? 2 : 1);
    out.delta.box_bytes = static_cast<int>(args.gemm.m) * box_columns * 4;
    out.delta.map = MakeDeltaMap(args, box_columns);
  }
  out.pace = {
      .stages = std::clamp(static_cast<int>(CeilDiv(kBytesOnWay, kStageBytes)), 2, out.num_stages),
      .stage_cycles = static_cast<int>(kStageBytes * num_blocks / kCardBytesPerCycle)};
}

// Sets what a product with LoRA inside needs.
inline void SetLora(const GemmCudaArgs& args, const SharedPlan& plan, HopperLoraGemmArgs& out) {
  out.lora = LoraOf(args.gemm, args.n);
  out.lora.num_stages_log2 = plan.num_lora_stages_log2;
  const GemmEpilogue& ends = args.gemm.epilogue;
  out.kept_begin = ends.kept_rows.begin;
  out.kept_end = ends.kept_rows.end;
  out.rounded = static_cast<uint16_t*>(ends.rounded);
  if (ends.activated == nullptr) {
    out.activation.vectors = IsOnBorder(ends.rounded) && args.n % 8 == 0;
  }
}

template <typename Shape>
void Launch(const GemmCudaArgs& args, int shared_bytes_max, Stream& stream) {
  const DeviceLimits limits = LimitsOf(stream.device);
  static const bool allowed = [&] {
    CUDA_CHECK(cudaFuncSetAttribute(HopperGemm<Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    limits.shared_bytes));
    return true;
  }();
  static_cast<void>(allowed);
  const GemmArgs& gemm = args.gemm;
  const GemmEpilogue& ends = gemm.epilogue;
  const LoraArgs* beside = LoraAt(gemm, LoraPlace::kBeside);
  typename Shape::Args out = {};
  out.y = gemm.y;
  out.y_stride = gemm.y_stride;
  out.bias = ends.bias;
  out.x = gemm.x;
  out.x_stride = gemm.x_stride;
  out.m = static_cast<int>(gemm.m);
  out.n = static_cast<int>(args.n);
  out.k = static_cast<int>(args.k);
  out.num_steps = static_cast<int>(CeilDiv(args.k, Shape::kBoxes * kBoxColumns));
  out.num_row_tiles = static_cast<int>(CeilDiv(gemm.m, Shape::kRows));
  out.num_column_tiles = static_cast<int>(CeilDiv(args.n, Shape::kColumns));
  const int box_rows =
      Shape::kSplitsX ? Shape::kRows
                      : static_cast<int>(std::min<int64_t>(Shape::kRows, CeilDiv(gemm.m, 8) * 8));
  out.x_box_bytes = box_rows * 128;
  const int64_t items = CeilDiv(out.num_row_tiles, Shape::kShareW ? Shape::kBlocks : 1) *
                        CeilDiv(out.num_column_tiles, Shape::kShareW ? 1 : Shape::kBlocks);
  const int num_processors = limits.num_processors - (beside != nullptr ? kLoraProcessorsMin : 0);
  const int64_t clusters = std::min<int64_t>(items, MaxClusters(Shape::kBlocks, num_processors));
  const int spared_bytes = beside != nullptr ? kSparedBesideLora : gemm.spared_shared_bytes;
  const SharedPlan plan =
      PlanShared<Shape>(out, std::min(limits.shared_bytes - spared_bytes, shared_bytes_max));
  out.num_stages = plan.num_stages;
  if constexpr (Shape::kLora) SetLora(args, plan, out);
  out.accumulate = ends.accumulate;
  out.scale = ends.scale;
  out.quads = IsOnBorder(gemm.y) && args.n % 4 == 0 && (gemm.m == 1 || gemm.y_stride % 4 == 0);
  if (ends.activated != nullptr) {
    CHECK(Shape::kActivates && args.n % (Shape::kSwapped ? 16 : 2) == 0)
        << Shape::kColumns << " of " << args.n;
    out.activation = {
        .out = ends.activated,
        .vectors = IsOnBorder(ends.activated) && args.n % 16 == 0 && IsOnBorder(ends.rounded)};
  }
  if (beside != nullptr) SetDelta<Shape>(args, clusters, out);
  // A stage is given back only while the next stage's products run.
  CHECK_GE(out.num_stages, 2);
  out.reads_once = out.num_row_tiles == 1;

  CUtensorMap x_map = {};
  if (!Shape::kCopyX) {
    const int64_t stride = gemm.m == 1 ? GemmCudaStride(args.k) : gemm.x_stride;
    const int part_rows = Shape::kSplitsX ? box_rows / Shape::kBlocks : box_rows;
    x_map = MakeMap(gemm.x, args.dtype, args.k, stride, {{gemm.m, 1, part_rows}});
  }
  if (beside != nullptr) {
    lora::LaunchBeside(*beside, limits.num_processors - static_cast<int>(clusters), stream);
  }
  if (Shape::kLora) lora::LaunchPackH(*ends.lora, stream);
  LaunchKernel(HopperGemm<Shape>, dim3(static_cast<unsigned>(clusters * Shape::kBlocks)),
               dim3(Shape::kThreads), static_cast<size_t>(plan.bytes), CudaStreamOf(stream), out,
               x_map, MakeWMap<Shape>(args));
}

template <DType kType, bool kLora>
using CopyingShape = HopperGemmShape<kType, 1, 32, 2, 1, false, false, true, kLora>;

constexpr const GemmTile& TileOf(DType type, size_t tile) {
  return type == DType::kF16 ? kF16Tiles[tile] : kTiles[tile];
}

template <size_t kTile, DType kType, bool kLora>
using TileShape =
    HopperGemmShape<kType, TileOf(kType, kTile).groups, TileOf(kType, kTile).width,
                    TileOf(kType, kTile).boxes, TileOf(kType, kTile).blocks,
                    TileOf(kType, kTile).share_w, TileOf(kType, kTile).swapped, false, kLora>;

template <size_t kBegin, DType kType, bool kLora, size_t... kOffset>
Launcher LauncherOf(size_t tile, std::index_sequence<kOffset...>) {
  static constexpr Launcher kLaunchers[] = {Launch<TileShape<kBegin + kOffset, kType, kLora>>...};
  return kLaunchers[tile - kBegin];
}
// The launcher of tile `tile` of [kBegin, kEnd): instantiates the kernels of all of them.
template <size_t kBegin, size_t kEnd, DType kType, bool kLora>
Launcher LauncherOf(size_t tile) {
  return LauncherOf<kBegin, kType, kLora>(tile, std::make_index_sequence<kEnd - kBegin>());
}

}  // namespace graft::hopper
