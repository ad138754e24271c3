// Launches Hopper's products of codes (gemm_hopper_codes.cuh) with one tile. Their kernels are
// compiled in several files, gemm_hopper_codes_*.cu, side by side.
#pragma once

#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/common/cuda_tensor_map.cuh"
#include "kernels/gemm/gemm_bricks.h"
#include "kernels/gemm/gemm_hopper_codes.cuh"
#include "kernels/gemm/gemm_hopper_launch.cuh"
#include "kernels/gemm/gemm_layout.h"

namespace graft::codes {

// The map of W's strips, in words of 8 bytes: [strips, 1, words], or with an activation [strips of
// the gate, gate and up, words].
template <typename Shape>
CUtensorMap MakeBricksMap(const GemmCudaArgs& args, const GemmBricksLayout& layout) {
  const cuuint64_t halves = args.gemm.epilogue.activated == nullptr ? 1 : 2;
  const cuuint64_t strips = static_cast<cuuint64_t>(layout.num_strips) / halves;
  const auto strip_bytes = static_cast<cuuint64_t>(layout.strip_bytes());
  const TensorMapShape shape{
      .count = 3,
      .sizes = {strip_bytes / 8, halves, strips},
      .strides = {strips * strip_bytes, strip_bytes},
      .box = {static_cast<cuuint32_t>(Shape::kStageBricks * layout.brick_bytes / 8),
              static_cast<cuuint32_t>(halves), static_cast<cuuint32_t>(Shape::kStrips / halves)}};
  return EncodeTensorMap(CU_TENSOR_MAP_DATA_TYPE_INT64, args.w, shape, CU_TENSOR_MAP_SWIZZLE_NONE,
                         CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}

template <typename Shape>
void LaunchHopper(const GemmCudaArgs& args, Stream& stream) {
  const hopper::DeviceLimits limits = hopper::LimitsOf(stream.device);
  static const bool allowed = [&] {
    CUDA_CHECK(cudaFuncSetAttribute(HopperCodes<Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    limits.shared_bytes));
    return true;
  }();
  static_cast<void>(allowed);
  const GemmArgs& gemm = args.gemm;
  const GemmEpilogue& ends = gemm.epilogue;
  const WeightFormat& format = gemm.weight->format();
  const GemmBricksLayout layout(format, args.n, args.k);
  CHECK_EQ(layout.num_ranges(), Shape::kRanges);
  HopperArgs out = {};
  out.y = gemm.y;
  out.y_stride = gemm.y_stride;
  out.bias = ends.bias;
  out.m = static_cast<int>(gemm.m);
  out.n = static_cast<int>(args.n);
  out.k = static_cast<int>(args.k);
  out.num_row_tiles = static_cast<int>(CeilDiv(gemm.m, Shape::kRows));
  out.num_column_tiles = static_cast<int>(CeilDiv(args.n, Shape::kColumns));
  const auto box_rows = static_cast<int>(std::min<int64_t>(Shape::kRows, CeilDiv(gemm.m, 8) * 8));
  out.x_box_bytes = box_rows * 128;
  out.accumulate = ends.accumulate;
  out.scale = ends.scale;
  if (ends.activated != nullptr) {
    CHECK(CodesActivate(args.n, args.k)) << args.n;
    out.activation = {.out = ends.activated,
                      .vectors = hopper::IsOnBorder(ends.activated) && args.n % 16 == 0};
  }
  out.reads_once = out.num_row_tiles == 1;
  out.num_bricks = static_cast<int>(layout.num_bricks);
  out.range_bricks = static_cast<int>(layout.range_bricks);
  out.brick_bytes = static_cast<int>(layout.brick_bytes);
  out.entry_bytes = static_cast<int>(layout.entry_bytes);
  out.row_entries = static_cast<int>(layout.scales_of_row());
  out.unit_shift = std::countr_zero(static_cast<unsigned>(Shape::kUnits / out.row_entries));
  out.has_zero_points = format.has_zero_points;
  const int stage_bytes =
      Shape::kStageBricks * (2 * out.x_box_bytes + Shape::kStrips * out.brick_bytes);
  const int others = kGemmBarrierBytes + Shape::kTableBytes;
  const int room = limits.shared_bytes - others;
  out.num_stages = std::clamp(std::min(Shape::kTile.ring_bytes, room) / stage_bytes,
                              Shape::kStagesMin, kGemmStagesMax);
  const int ring_bytes = out.num_stages * stage_bytes;
  CHECK_LE(ring_bytes, room);

  const int64_t stride = gemm.m == 1 ? GemmCudaStride(args.k) : gemm.x_stride;
  const CUtensorMap x_map =
      hopper::MakeMap(gemm.x, args.dtype, args.k, stride, {{gemm.m, 1, box_rows}});
  LaunchKernel(HopperCodes<Shape>,
               GridOf(int64_t{out.num_row_tiles} * out.num_column_tiles * Shape::kRanges),
               dim3(Shape::kThreads), static_cast<size_t>(others + ring_bytes),
               CudaStreamOf(stream), out, x_map, MakeBricksMap<Shape>(args, layout));
}

template <Kind kKind, size_t kTile>
constexpr Launcher HopperOfTwoRanges() {
  if constexpr (kHopperTiles[kTile].groups == 1) {
    return LaunchHopper<HopperShape<kKind, kTile, 2>>;
  } else {
    return nullptr;
  }
}
template <Kind kKind, size_t... kTile>
constexpr HopperLaunchers HopperLaunchersOf(std::index_sequence<kTile...>) {
  return {.plain = {LaunchHopper<HopperShape<kKind, kTile, 1>>...},
          .of_two_ranges = {HopperOfTwoRanges<kKind, kTile>()...}};
}
template <Kind kKind>
constexpr HopperLaunchers HopperLaunchersOf() {
  return HopperLaunchersOf<kKind>(std::make_index_sequence<kNumHopperTiles>());
}

}  // namespace graft::codes
