// GEMM in bf16 and fp16 on cards before Hopper. It is correct and bit-invariant for the same reason
// as Hopper's kernel: one accumulator per element, k in ascending steps of 16. It is not tuned.
#include <cuda_runtime.h>

#include <type_traits>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_mma.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/gemm/gemm_cuda.h"

namespace graft {
namespace {

constexpr int kTile = 64;           // rows of x and rows of W in a tile
constexpr int kDepth = 32;          // columns of k per round
constexpr int kPitch = kDepth + 8;  // puts the words of eight rows on different banks
constexpr int kThreads = 128;       // four warps of 32 x 32 each

using Tile = uint16_t[kTile][kPitch];

// Copies in pieces of eight elements. kVectors: rows lie on 16-byte borders.
template <bool kVectors>
__device__ void LoadTile(const void* source, int64_t stride, int64_t num_rows, int64_t k,
                         int64_t first_row, int64_t first_column, Tile& out) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth / 8; i += kThreads) {
    const int row = i / (kDepth / 8);
    const int column = i % (kDepth / 8) * 8;
    uint4 piece = {};
    if (first_row + row < num_rows) {
      const uint16_t* from =
          static_cast<const uint16_t*>(source) + (first_row + row) * stride + first_column + column;
      const int64_t count = k - first_column - column;
      if (kVectors && count >= 8) {
        piece = *reinterpret_cast<const uint4*>(from);
      } else {
        auto* elements = reinterpret_cast<uint16_t*>(&piece);
#pragma unroll
        for (int j = 0; j < 8; ++j) elements[j] = j < count ? from[j] : uint16_t{0};
      }
    }
    *reinterpret_cast<uint4*>(&out[row][column]) = piece;
  }
}

__device__ __forceinline__ uint32_t PairAt(const Tile& tile, int row, int column) {
  return *reinterpret_cast<const uint32_t*>(&tile[row][column]);
}

__device__ __forceinline__ void StoreOne(const GemmCudaArgs& args, int64_t row, int64_t column,
                                         float value) {
  const GemmArgs& gemm = args.gemm;
  if (row >= gemm.m || column >= args.n) return;
  if (gemm.epilogue.bias != nullptr) value += gemm.epilogue.bias[column];
  float* y = gemm.y + row * gemm.y_stride + column;
  *y = gemm.epilogue.accumulate ? fmaf(gemm.epilogue.scale, value, *y) : value;
}

template <DType kType, bool kVectors>
__global__ void __launch_bounds__(kThreads) MmaKernel(const __grid_constant__ GemmCudaArgs args) {
  __shared__ alignas(16) Tile x;
  __shared__ alignas(16) Tile w;
  LetNextStart();
  WaitForPrevious();
  const GemmArgs& gemm = args.gemm;
  const int64_t first_row = int64_t{blockIdx.y} * kTile;
  const int64_t first_column = int64_t{blockIdx.x} * kTile;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / 2 * 32 + static_cast<int>(threadIdx.x) % 32 / 4;
  const int column = warp % 2 * 32 + static_cast<int>(threadIdx.x) % 32 / 4;
  const int pair = static_cast<int>(threadIdx.x) % 4 * 2;
  using Element = std::conditional_t<kType == DType::kBF16, Bfloat16, Float16>;
  float sum[2][4][4] = {};
  for (int64_t k = 0; k < args.k; k += kDepth) {
    __syncthreads();
    LoadTile<kVectors>(gemm.x, gemm.x_stride, gemm.m, args.k, first_row, k, x);
    LoadTile<true>(args.w, args.w_stride, args.n, args.k, first_column, k, w);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDepth; i += 16) {
      uint32_t b[4][2];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        b[c][0] = PairAt(w, column + c * 8, i + pair);
        b[c][1] = PairAt(w, column + c * 8, i + pair + 8);
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const uint32_t a[4] = {
            PairAt(x, row + r * 16, i + pair), PairAt(x, row + r * 16 + 8, i + pair),
            PairAt(x, row + r * 16, i + pair + 8), PairAt(x, row + r * 16 + 8, i + pair + 8)};
#pragma unroll
        for (int c = 0; c < 4; ++c) MultiplyAdd<Element>(sum[r][c], a, b[c][0], b[c][1]);
      }
    }
  }
  for (int r = 0; r < 2; ++r) {
    for (int c = 0; c < 4; ++c) {
      for (int i = 0; i < 4; ++i) {
        StoreOne(args, first_row + row + r * 16 + i / 2 * 8,
                 first_column + warp % 2 * 32 + c * 8 + pair + i % 2, sum[r][c][i]);
      }
    }
  }
}

}  // namespace

void GemmMma(const GemmCudaArgs& args, Stream& stream) {
  const dim3 grid = GridOf(CeilDiv(args.n, kTile), CeilDiv(args.gemm.m, kTile));
  const bool vectors =
      IsVectorAligned(args.gemm.x) && (args.gemm.m == 1 || args.gemm.x_stride % 8 == 0);
  DispatchVectors(vectors, [&]<bool kVectors>() {
    const auto kernel = args.dtype == DType::kBF16 ? MmaKernel<DType::kBF16, kVectors>
                                                   : MmaKernel<DType::kF16, kVectors>;
    LaunchKernel(kernel, grid, dim3(kThreads), 0, CudaStreamOf(stream), args);
  });
}

}  // namespace graft
