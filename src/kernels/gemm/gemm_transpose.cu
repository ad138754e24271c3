// Transposes a weight in tiles of 64 x 64 by way of shared memory, 16 bytes at a time where rows
// and columns come in whole pieces of that.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/gemm/gemm_cuda.h"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 64;

// Elements are moved as words of their size: nothing is computed.
template <typename Word, bool kVectors>
__global__ void __launch_bounds__(kThreads)
    TransposeKernel(const Word* source, int64_t source_stride, int64_t num_rows,
                    int64_t num_columns, Word* target, int64_t target_stride) {
  constexpr int kWidth = kVectors ? 16 / static_cast<int>(sizeof(Word)) : 1;
  struct alignas(kVectors ? 16 : sizeof(Word)) Piece {
    Word words[kWidth];
  };
  __shared__ Word tile[kTile][kTile + 1];
  const int64_t first_row = int64_t{blockIdx.y} * kTile;
  const int64_t first_column = int64_t{blockIdx.x} * kTile;
  constexpr int kPieces = kTile / kWidth;  // of a row of the tile
  WaitForPrevious();
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kPieces; i += kThreads) {
    const int row = i / kPieces;
    const int column = i % kPieces * kWidth;
    if (first_row + row >= num_rows || first_column + column >= num_columns) continue;
    const Piece piece = *reinterpret_cast<const Piece*>(source + (first_row + row) * source_stride +
                                                        first_column + column);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) tile[row][column + j] = piece.words[j];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kPieces; i += kThreads) {
    const int column = i / kPieces;
    const int row = i % kPieces * kWidth;
    if (first_column + column >= num_columns || first_row + row >= num_rows) continue;
    Piece piece;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) piece.words[j] = tile[row + j][column];
    *reinterpret_cast<Piece*>(target + (first_column + column) * target_stride + first_row + row) =
        piece;
  }
  // No kernel begins before this one's end. One that then begins may read the target without
  // waiting.
  __threadfence();
}

template <typename Word>
void Launch(const void* source, int64_t source_stride, int64_t num_rows, int64_t num_columns,
            void* target, int64_t target_stride, Stream& stream) {
  constexpr int64_t kWidth = 16 / sizeof(Word);
  const bool vectors = num_rows % kWidth == 0 && num_columns % kWidth == 0;
  DispatchVectors(vectors, [&]<bool kVectors>() {
    LaunchKernel(TransposeKernel<Word, kVectors>,
                 GridOf(CeilDiv(num_columns, kTile), CeilDiv(num_rows, kTile)), dim3(kThreads), 0,
                 CudaStreamOf(stream), static_cast<const Word*>(source), source_stride, num_rows,
                 num_columns, static_cast<Word*>(target), target_stride);
  });
}

}  // namespace

void TransposeRows(const void* source, int64_t source_stride, int64_t num_rows, int64_t num_columns,
                   DType dtype, void* target, int64_t target_stride, Stream& stream) {
  if (DTypeBytes(dtype) == 2) {
    Launch<uint16_t>(source, source_stride, num_rows, num_columns, target, target_stride, stream);
  } else {
    Launch<uint32_t>(source, source_stride, num_rows, num_columns, target, target_stride, stream);
  }
}

}  // namespace graft
