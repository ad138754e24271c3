// Launches the GEMM by mma.sync (gemm_mma.cuh) with one tile. Its kernels are compiled in several
// files, gemm_mma_*.cu, side by side.
#pragma once

#include <utility>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/gemm/gemm_mma.cuh"
#include "kernels/lora/lora_pack.cuh"

namespace graft::mma {

template <typename Shape>
constexpr int SharedBytes() {
  if constexpr (Shape::kLora) {
    return Shape::kTile.ring_bytes() + static_cast<int>(sizeof(LoraState<Shape>));
  }
  return Shape::kTile.ring_bytes();
}

inline GemmLoraArgs LoraOf(const GemmArgs& gemm, int64_t n) {
  GemmLoraArgs out;
  out.lora = *gemm.epilogue.lora;
  out.vectors = gemm.epilogue.activated == nullptr || n % 16 == 0;
  for (int32_t s = 0; s < out.lora.num_slices; ++s) {
    out.vectors &= out.lora.slice_begin[s] % 8 == 0 && out.lora.slice_n[s] % 8 == 0;
  }
  out.h = lora::PackedHOf(out.lora);
  return out;
}

template <typename Shape>
typename Shape::Args ArgsOf(const GemmCudaArgs& args) {
  const GemmArgs& gemm = args.gemm;
  const GemmEpilogue& ends = gemm.epilogue;
  typename Shape::Args out = {};
  out.y = gemm.y;
  out.y_stride = gemm.y_stride;
  out.bias = ends.bias;
  out.x = static_cast<const uint16_t*>(gemm.x);
  out.x_stride = gemm.x_stride;
  out.w = static_cast<const uint16_t*>(args.w);
  out.w_stride = args.w_stride;
  out.m = static_cast<int>(gemm.m);
  out.n = static_cast<int>(args.n);
  out.k = static_cast<int>(args.k);
  out.num_steps = static_cast<int>(CeilDiv(args.k, Shape::kDepth));
  out.num_row_tiles = static_cast<int>(CeilDiv(gemm.m, Shape::kRows));
  // A tile has as many of the gate's columns as of up's.
  const int64_t columns = ends.activated == nullptr ? Shape::kColumns : Shape::kColumns / 2;
  out.num_column_tiles =
      static_cast<int>(CeilDiv(ends.activated == nullptr ? args.n : args.n / 2, columns));
  out.accumulate = ends.accumulate;
  out.scale = ends.scale;
  out.activated = static_cast<uint16_t*>(ends.activated);
  if constexpr (Shape::kLora) {
    out.lora = LoraOf(gemm, args.n);
    out.rounded = static_cast<uint16_t*>(ends.rounded);
    out.kept_begin = ends.kept_rows.begin;
    out.kept_end = ends.kept_rows.end;
  }
  return out;
}

template <typename Shape>
void Launch(const GemmCudaArgs& args, Stream& stream) {
  constexpr int kSharedBytes = SharedBytes<Shape>();
  static_assert(kSharedBytes <= 99 << 10);
  [[maybe_unused]] static const bool has_room = [] {
    CUDA_CHECK(cudaFuncSetAttribute(Kernel<Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    kSharedBytes));
    return true;
  }();
  const typename Shape::Args out = ArgsOf<Shape>(args);
  if (Shape::kLora) lora::LaunchPackH(*args.gemm.epilogue.lora, stream);
  LaunchKernel(Kernel<Shape>, GridOf(int64_t{out.num_row_tiles} * out.num_column_tiles),
               dim3(Shape::kThreads), kSharedBytes, CudaStreamOf(stream), out);
}

template <DType kType, bool kLora, bool kTransposed, size_t kFirst, size_t... kOffset>
Launcher LauncherOf(size_t tile, std::index_sequence<kOffset...>) {
  static constexpr Launcher kLaunchers[] = {
      Launch<Shape<kType, kFirst + kOffset, kLora, kTransposed>>...};
  return kLaunchers[tile - kFirst];
}
// The launcher of tile `tile`, one of those from kFirst on.
template <DType kType, bool kLora, bool kTransposed, size_t kFirst>
Launcher LauncherOf(size_t tile) {
  CHECK_LT(tile - kFirst, kNumTiles - kFirst) << "tile " << tile;
  return LauncherOf<kType, kLora, kTransposed, kFirst>(
      tile, std::make_index_sequence<kNumTiles - kFirst>());
}

}  // namespace graft::mma
