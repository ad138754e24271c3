// Launches the GEMM by mma.sync (gemm_mma.cuh) of codes with one tile. Its kernels are compiled in
// several files, gemm_codes_mma_*.cu, side by side.
#pragma once

#include <bit>
#include <cstddef>
#include <utility>

#include "kernels/gemm/gemm_bricks.h"
#include "kernels/gemm/gemm_codes_operands.cuh"
#include "kernels/gemm/gemm_layout.h"
#include "kernels/gemm/gemm_mma_launch.cuh"

namespace graft::codes {

template <typename Shape>
typename Shape::Args ArgsOf(const GemmCudaArgs& args) {
  const GemmBricksLayout layout(args.gemm.weight->format(), args.n, args.k);
  GemmCudaArgs product = args;
  const LoraArgs none;  // no segments: what a kernel with LoRA inside takes where there is none
  if (LoraAt(args.gemm, LoraPlace::kInside) == nullptr) product.gemm.epilogue.lora = &none;
  typename Shape::Args out = mma::ArgsOf<Shape>(product);
  out.bricks = static_cast<const char*>(args.w);
  out.strip_bytes = layout.strip_bytes();
  out.brick_bytes = static_cast<int>(layout.brick_bytes);
  out.entry_bytes = static_cast<int>(layout.entry_bytes);
  out.row_entries = static_cast<int>(layout.scales_of_row());
  out.range_steps = static_cast<int>(layout.range_bricks);
  out.num_steps = static_cast<int>(Shape::kGroups == 1 ? layout.num_bricks : layout.range_bricks);
  out.unit_shift = std::countr_zero(static_cast<unsigned>(Shape::kUnits / out.row_entries));
  const int bricks = (Shape::kGroups * Shape::kStrips * out.brick_bytes + 127) / 128 * 128;
  out.stage_bytes = bricks + Shape::kGroups * Shape::kXBytes;
  CHECK(Shape::kWide || out.stage_bytes == Shape::kNarrowStageBytes) << out.stage_bytes;
  out.has_zero_points = args.gemm.weight->format().has_zero_points;
  return out;
}

template <typename Shape>
constexpr int LoraStateBytes() {
  if constexpr (Shape::kLora) return static_cast<int>(sizeof(mma::LoraState<Shape>));
  return 0;
}

template <typename Shape>
void Launch(const GemmCudaArgs& args, Stream& stream) {
  constexpr int kSharedBytesMax = 99 << 10;
  [[maybe_unused]] static const bool has_room = [] {
    CUDA_CHECK(cudaFuncSetAttribute(mma::Kernel<Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    kSharedBytesMax));
    return true;
  }();
  const typename Shape::Args out = ArgsOf<Shape>(args);
  const int shared_bytes =
      Shape::kStages * out.stage_bytes + Shape::kTableBytes + LoraStateBytes<Shape>();
  CHECK_LE(shared_bytes, kSharedBytesMax);
  if (Shape::kLora && LoraAt(args.gemm, LoraPlace::kInside) != nullptr) {
    lora::LaunchPackH(*args.gemm.epilogue.lora, stream);
  }
  LaunchKernel(mma::Kernel<Shape>, GridOf(int64_t{out.num_row_tiles} * out.num_column_tiles),
               dim3(Shape::kThreads), static_cast<size_t>(shared_bytes), CudaStreamOf(stream), out);
}

template <Kind kKind, size_t... kTile, size_t... kNarrow, size_t... kWide>
constexpr KindLaunchers LaunchersOf(std::index_sequence<kTile...>, std::index_sequence<kNarrow...>,
                                    std::index_sequence<kWide...>) {
  return {.plain = {Launch<Shape<kKind, kTile, false, false>>...},
          .of_two_ranges = {Launch<Shape<kKind, kNarrow, false, false, 2>>...},
          .lora = {Launch<Shape<kKind, kFirstWide + kWide, true, false>>...},
          .copying = Launch<Shape<kKind, kFirstWide, true, true>>};
}
template <Kind kKind>
constexpr KindLaunchers LaunchersOf() {
  return LaunchersOf<kKind>(std::make_index_sequence<kNumTiles>(),
                            std::make_index_sequence<kFirstWide>(),
                            std::make_index_sequence<kNumTiles - kFirstWide>());
}

}  // namespace graft::codes
