// Transposes a weight in tiles of 64 x 64 by way of shared memory, 16 bytes at a time where rows
// and columns come in whole pieces of that.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/gemm/gemm_cuda.h"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 64;

// A thread takes eight columns of two rows and puts the two elements of a column into one word. The
// words of a column of the tile are then pieces of the target's row. Pieces change places from one
// group of eight columns to the next, so that a warp's words fall into all banks.
__global__ void __launch_bounds__(kThreads)
    TransposePairs(const uint16_t* source, int64_t source_stride, int64_t num_rows,
                   int64_t num_columns, uint16_t* target, int64_t target_stride) {
  constexpr int kPieces = kTile / 8;
  static_assert(kTile / 2 * kPieces == kThreads);
  __shared__ alignas(16) uint32_t tile[kTile][kTile / 2];
  const int64_t first_row = int64_t{blockIdx.y} * kTile;
  const int64_t first_column = int64_t{blockIdx.x} * kTile;
  const auto thread = static_cast<int>(threadIdx.x);
  const int pair = thread / kPieces;
  const int64_t row = first_row + 2 * pair;
  const int64_t column = first_column + thread % kPieces * 8;
  WaitForPrevious();
  if (row < num_rows && column < num_columns) {
    const uint16_t* from = source + row * source_stride + column;
    const uint4 upper = *reinterpret_cast<const uint4*>(from);
    const uint4 lower = *reinterpret_cast<const uint4*>(from + source_stride);
    const uint32_t uppers[4] = {upper.x, upper.y, upper.z, upper.w};
    const uint32_t lowers[4] = {lower.x, lower.y, lower.z, lower.w};
    const int place = (pair / 4 ^ thread % kPieces) * 4 + pair % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      tile[thread % kPieces * 8 + 2 * i][place] = __byte_perm(uppers[i], lowers[i], 0x5410);
      tile[thread % kPieces * 8 + 2 * i + 1][place] = __byte_perm(uppers[i], lowers[i], 0x7632);
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = thread; i < kTile * kPieces; i += kThreads) {
    const int local = i / kPieces;  // column of the source
    const int piece = i % kPieces;
    if (first_column + local >= num_columns || first_row + piece * 8 >= num_rows) continue;
    *reinterpret_cast<uint4*>(target + (first_column + local) * target_stride + first_row +
                              piece * 8) =
        *reinterpret_cast<const uint4*>(&tile[local][(piece ^ local / 8) * 4]);
  }
  // No kernel begins before this one's end. One that then begins may read the target without
  // waiting.
  __threadfence();
}

// Elements are moved as words of their size: nothing is computed.
template <typename Word>
__global__ void __launch_bounds__(kThreads)
    TransposeKernel(const Word* source, int64_t source_stride, int64_t num_rows,
                    int64_t num_columns, Word* target, int64_t target_stride) {
  __shared__ Word tile[kTile][kTile + 1];
  const int64_t first_row = int64_t{blockIdx.y} * kTile;
  const int64_t first_column = int64_t{blockIdx.x} * kTile;
  WaitForPrevious();
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile; i += kThreads) {
    const int64_t row = first_row + i / kTile, column = first_column + i % kTile;
    if (row >= num_rows || column >= num_columns) continue;
    tile[i / kTile][i % kTile] = source[row * source_stride + column];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile; i += kThreads) {
    const int64_t column = first_column + i / kTile, row = first_row + i % kTile;
    if (row >= num_rows || column >= num_columns) continue;
    target[column * target_stride + row] = tile[i % kTile][i / kTile];
  }
  __threadfence();  // as above
}

}  // namespace

void TransposeRows(const void* source, int64_t source_stride, int64_t num_rows, int64_t num_columns,
                   DType dtype, void* target, int64_t target_stride, Stream& stream) {
  const auto launch = [&]<typename Word>(
                          void (*kernel)(const Word*, int64_t, int64_t, int64_t, Word*, int64_t)) {
    LaunchKernel(kernel, GridOf(CeilDiv(num_columns, kTile), CeilDiv(num_rows, kTile)),
                 dim3(kThreads), 0, CudaStreamOf(stream), static_cast<const Word*>(source),
                 source_stride, num_rows, num_columns, static_cast<Word*>(target), target_stride);
  };
  if (DTypeBytes(dtype) == 4) return launch(TransposeKernel<uint32_t>);
  if (num_rows % 8 == 0 && num_columns % 8 == 0) return launch(TransposePairs);
  launch(TransposeKernel<uint16_t>);
}

}  // namespace graft
