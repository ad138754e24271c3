// A block takes a tile of 128 rows and 128 columns of W. In bf16 and fp16, up to 64 ranks of B^T
// and A at a time lie in shared memory, in rows as they come, and the tensor cores multiply them.
// Each thread adds the result to runs of eight columns (16 bytes) of W, for which it asked
// beforehand. The time has a floor: every byte of W is read and written once. In fp32 the kernel is
// plain, with a thread per column.
#include <cuda_runtime.h>

#include <algorithm>

#include "bench/lora_merge/lora_merge_work.h"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_mma.cuh"
#include "kernels/common/cuda_shared.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/gemm/gemm_cuda.h"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 128;          // rows of W, and columns of W
constexpr int kDepth = 64;          // ranks per round
constexpr int kStride = kTile + 8;  // of a row in shared memory: eight rows use each bank once
constexpr int kRun = 8;             // 16 bytes of columns
constexpr int kWarpRows = 32;
constexpr int kWarpColumns = 64;
constexpr int kGroup = 32;  // columns that four lanes hold in runs

// A slice of W: rows [begin, begin + n).
struct Slice {
  LoraMatrix matrix;
  int64_t begin = 0;
  int64_t n = 0;
};

__device__ Slice SliceOfBlock(const LoraMergeWork& work) {
  Slice slice;
  for (unsigned s = 0; s < blockIdx.z; ++s) slice.begin += work.slice_n[s];
  slice.n = work.slice_n[blockIdx.z];
  slice.matrix = work.matrices[blockIdx.z];
  return slice;
}

// Eight elements of a row, of which `count` exist; the others are zeros.
template <typename T>
__device__ __forceinline__ uint4 LoadRun16(const T* p, int64_t count) {
  if (count >= kRun && reinterpret_cast<uintptr_t>(p) % 16 == 0) {
    return *reinterpret_cast<const uint4*>(p);
  }
  uint32_t words[kRun / 2] = {};
  for (int i = 0; i < kRun && i < count; ++i) {
    words[i / 2] |= static_cast<uint32_t>(p[i].bits) << (i % 2 * 16);
  }
  return {words[0], words[1], words[2], words[3]};
}

// Loads rows [first, first + depth) of `rows`, in columns from `column` on, of n. kSpread: the
// columns of a group change places, so that lane t of a quad, to which tile i of the tensor cores
// gives columns 2t and 2t + 1, ends up with the run of columns 8t..8t+7.
template <typename T, bool kSpread>
__device__ __forceinline__ void LoadRows(const void* const* rows, int first, int rank, int depth,
                                         int64_t column, int64_t n, T (*shared)[kStride]) {
  constexpr int kRuns = kTile / kRun;
  for (int i = static_cast<int>(threadIdx.x); i < depth * kRuns; i += kThreads) {
    const int j = i / kRuns;
    const int run = i % kRuns;
    uint4 v = {};
    if (first + j < rank) {
      const int64_t begin = column + run * kRun;
      v = LoadRun16(static_cast<const T*>(rows[first + j]) + begin, n - begin);
    }
    if constexpr (kSpread) {
      auto* to = reinterpret_cast<uint32_t*>(shared[j] + run / 4 * kGroup) + run % 4;
      to[0] = v.x;
      to[4] = v.y;
      to[8] = v.z;
      to[12] = v.w;
    } else {
      *reinterpret_cast<uint4*>(shared[j] + run * kRun) = v;
    }
  }
}

// sum += the warp's 32 x 64 part of B A, over 16 ranks. Tile (i, j) of sum has rows from 16 i on
// and columns from 8 j on.
template <typename T>
__device__ __forceinline__ void Multiply(const T (*b)[kStride], const T (*a)[kStride],
                                         float (&sum)[2][8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int matrix = lane / 8;
  uint32_t left[2][4];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const T* const row = b[lane % 8 + matrix / 2 * 8] + i * 16 + matrix % 2 * 8;
    LoadMatricesTransposed(SharedAddress(row), left[i]);
  }
#pragma unroll
  for (int j = 0; j < 8; j += 2) {
    uint32_t right[4];
    const T* const row = a[lane % 8 + matrix % 2 * 8] + (j + matrix / 2) * 8;
    LoadMatricesTransposed(SharedAddress(row), right);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      MultiplyAdd<T>(sum[i][j], left[i], right[0], right[1]);
      MultiplyAdd<T>(sum[i][j + 1], left[i], right[2], right[3]);
    }
  }
}

// What a thread owns of its warp's tile: runs of eight columns, in rows 16 i + 8 half + lane / 4.
struct Run {
  int64_t offset;  // elements from the start of W
  bool inside;
};

__device__ __forceinline__ Run RunOf(const Slice& slice, int64_t row, int64_t column,
                                     int64_t stride, int i, int half, int group) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  row += i * 16 + half * 8 + lane / 4;
  column += group * kGroup + lane % 4 * kRun;
  return {(slice.begin + row) * stride + column, row < slice.n && column < stride};
}

// Columns 2 j and 2 j + 1 of the run come from tile j.
template <typename T>
__device__ __forceinline__ uint4 AddRun(uint4 w, float scale, const float (&sum)[8][4], int half,
                                        int group) {
  uint32_t words[] = {w.x, w.y, w.z, w.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float* two = sum[group * 4 + j] + half * 2;
    T low, high;
    low.bits = static_cast<uint16_t>(words[j]);
    high.bits = static_cast<uint16_t>(words[j] >> 16);
    low = NarrowElement<T>(fmaf(scale, two[0], WidenElement(low)));
    high = NarrowElement<T>(fmaf(scale, two[1], WidenElement(high)));
    words[j] = low.bits | static_cast<uint32_t>(high.bits) << 16;
  }
  return {words[0], words[1], words[2], words[3]};
}

template <typename T>
__global__ void __launch_bounds__(kThreads, 2)
    MergeKernel(const __grid_constant__ LoraMergeWork work, int64_t stride) {
  __shared__ __align__(16) T b[kDepth][kStride];
  __shared__ __align__(16) T a[kDepth][kStride];
  LetNextStart();
  const Slice slice = SliceOfBlock(work);
  const int64_t tile_row = int64_t{blockIdx.y} * kTile;
  const int64_t tile_column = int64_t{blockIdx.x} * kTile;
  if (tile_row >= slice.n) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp / 2 * kWarpRows;
  const int warp_column = warp % 2 * kWarpColumns;

  const T* const base = static_cast<const T*>(work.base);
  uint4 w[2][2][2];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const Run run = RunOf(slice, tile_row + warp_row, tile_column + warp_column, stride, i / 4,
                          i / 2 % 2, i % 2);
    if (run.inside) {
      w[i / 4][i / 2 % 2][i % 2] = __ldcs(reinterpret_cast<const uint4*>(base + run.offset));
    }
  }

  const LoraMatrix& matrix = slice.matrix;
  float sum[2][8][4] = {};
  for (int first = 0; first < matrix.rank; first += kDepth) {
    const int depth = (min(kDepth, matrix.rank - first) + 15) / 16 * 16;
    if (first > 0) __syncthreads();
    LoadRows<T, false>(matrix.b_rows, first, matrix.rank, depth, tile_row, slice.n, b);
    LoadRows<T, true>(matrix.a_rows, first, matrix.rank, depth, tile_column, work.k, a);
    __syncthreads();
    for (int j = 0; j < depth; j += 16) {
      Multiply(reinterpret_cast<const T(*)[kStride]>(b[j] + warp_row),
               reinterpret_cast<const T(*)[kStride]>(a[j] + warp_column), sum);
    }
  }

  WaitForPrevious();  // earlier kernels may use what is written now; all else is constant
  T* const merged = static_cast<T*>(work.merged);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const Run run = RunOf(slice, tile_row + warp_row, tile_column + warp_column, stride, i / 4,
                          i / 2 % 2, i % 2);
    if (!run.inside) continue;
    uint4 v = w[i / 4][i / 2 % 2][i % 2];
    if (matrix.rank > 0) v = AddRun<T>(v, matrix.scale, sum[i / 4], i / 2 % 2, i % 2);
    __stcs(reinterpret_cast<uint4*>(merged + run.offset), v);
  }
}

constexpr int kPlainRows = 8;

__global__ void __launch_bounds__(kThreads)
    MergePlainKernel(const __grid_constant__ LoraMergeWork work, int64_t stride) {
  LetNextStart();
  WaitForPrevious();
  const Slice slice = SliceOfBlock(work);
  const int64_t row = int64_t{blockIdx.y} * kPlainRows;
  const int64_t column = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (column >= stride) return;
  const LoraMatrix& matrix = slice.matrix;
  float sum[kPlainRows] = {};
  for (int j = 0; j < matrix.rank && column < work.k; ++j) {
    const float a = static_cast<const float*>(matrix.a_rows[j])[column];
    const float* b = static_cast<const float*>(matrix.b_rows[j]) + row;
#pragma unroll
    for (int i = 0; i < kPlainRows; ++i) {
      if (row + i < slice.n) sum[i] = fmaf(b[i], a, sum[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < kPlainRows; ++i) {
    if (row + i >= slice.n) continue;
    const int64_t offset = (slice.begin + row + i) * stride + column;
    const float w = static_cast<const float*>(work.base)[offset];
    static_cast<float*>(work.merged)[offset] = matrix.rank > 0 ? fmaf(matrix.scale, sum[i], w) : w;
  }
}

template <typename Kernel>
void Launch(Kernel kernel, int64_t rows, int64_t columns, const LoraMergeWork& work,
            Stream& stream) {
  const int64_t n = *std::max_element(work.slice_n, work.slice_n + work.num_slices);
  const int64_t stride = GemmCudaStride(work.k);
  const dim3 grid = GridOf(CeilDiv(stride, columns), CeilDiv(n, rows), work.num_slices);
  LaunchKernel(kernel, grid, dim3(kThreads), 0, CudaStreamOf(stream), work, stride);
}

}  // namespace

void LoraMergeCuda(const LoraMergeWork& work, Stream& stream) {
  switch (work.dtype) {
    case DType::kF32:
      return Launch(MergePlainKernel, kPlainRows, kThreads, work, stream);
    case DType::kBF16:
      return Launch(MergeKernel<Bfloat16>, kTile, kTile, work, stream);
    case DType::kF16:
      return Launch(MergeKernel<Float16>, kTile, kTile, work, stream);
  }
}

}  // namespace graft
