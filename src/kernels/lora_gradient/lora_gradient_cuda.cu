// Three launches: h is summed up and rounded; every part of a segment's rows gets a sum of its own,
// and adds it to the gradient where it is the segment's only one; the others are added in order.
// A thread block has 128 columns of a part. bf16 goes through the tensor cores: ranks are the rows
// of a product, the batch's rows are what it sums over.
#include <algorithm>

#include "kernels/attention/attention_ptx.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/lora_gradient/lora_gradient.h"
#include "kernels/lora_gradient/lora_gradient_work.h"

namespace graft {
namespace lora_gradient {
namespace {

constexpr int kThreads = 128;
constexpr int kColumns = 128;   // of a thread block
constexpr int kStepRows = 32;   // that are brought at a time
constexpr int kRankTiles = 4;   // of 16 ranks, at most in a thread block
constexpr int kPlainRanks = 8;  // of a thread

template <typename T>
struct Work {
  LoraGradientArgs args;
  T* h;         // [num_rows, rank_stride]
  float* sums;  // [parts, rank_max, n]
  int rank_stride;
  int parts_max;  // of a segment
};

// The rows of a part, and where its sum goes.
struct Part {
  LoraGradientSegment segment;
  int begin;
  int end;
  int64_t number;
  bool is_only;
};

template <typename T>
__device__ __forceinline__ Part PartOf(const Work<T>& work, int index) {
  const int s = index / work.parts_max;
  const int p = index % work.parts_max;
  Part part{.segment = work.args.segments[s]};
  part.begin = part.segment.row_begin + p * kLoraGradientPartRows;
  part.end = min(part.begin + kLoraGradientPartRows, part.segment.row_end);
  part.number = part.segment.row_begin / kLoraGradientPartRows + s + p;
  part.is_only = part.segment.row_end - part.segment.row_begin <= kLoraGradientPartRows;
  return part;
}

// A sum of part.segment's matrix at rank j: added to the gradient, or put where it waits for the
// others.
template <typename T>
__device__ __forceinline__ void PutSum(const Work<T>& work, const Part& part, int j, int64_t column,
                                       float sum) {
  const int64_t n = work.args.n;
  if (part.is_only) {
    float* out = part.segment.gradient + part.segment.rank * work.args.rank_offset + j * n + column;
    *out = __fmaf_rn(part.segment.scale, sum, *out);
  } else {
    work.sums[(part.number * work.args.rank_max + j) * n + column] = sum;
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) RoundKernel(const __grid_constant__ Work<T> work) {
  LetNextStart();
  WaitForPrevious();
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const LoraGradientArgs& args = work.args;
  if (i >= int64_t{args.num_rows} * work.rank_stride) return;
  const int64_t row = i / work.rank_stride;
  const int64_t rank = i % work.rank_stride;
  float sum = 0.0f;
  if (rank < args.rank_max) {
    const float* h = args.h + row * args.h_stride + rank;
    for (int part = 0; part < args.num_h_parts; ++part) sum += h[part * args.h_part];
  }
  work.h[i] = NarrowElement<T>(sum);
}

// A thread per column and eight ranks. For fp32, and for operands that are not on borders.
template <typename T>
__global__ void __launch_bounds__(kThreads) PlainKernel(const __grid_constant__ Work<T> work) {
  LetNextStart();
  WaitForPrevious();
  const LoraGradientArgs& args = work.args;
  const Part part = PartOf(work, static_cast<int>(blockIdx.y));
  const int first = static_cast<int>(blockIdx.z) * kPlainRanks;
  const int64_t column = int64_t{blockIdx.x} * kColumns + threadIdx.x;
  if (part.begin >= part.end || first >= part.segment.rank || column >= args.n) return;
  const int count = min(kPlainRanks, part.segment.rank - first);
  float sums[kPlainRanks] = {};
  for (int row = part.begin; row < part.end; ++row) {
    const float x = WidenElement(static_cast<const T*>(args.x)[row * args.x_stride + column]);
    const T* h = work.h + int64_t{row} * work.rank_stride + first;
#pragma unroll
    for (int j = 0; j < kPlainRanks; ++j) {
      if (j < count) sums[j] = __fmaf_rn(WidenElement(h[j]), x, sums[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < kPlainRanks; ++j) {
    if (j < count) PutSum(work, part, first + j, column, sums[j]);
  }
}

// Rows of x and h in shared memory, padded so that the eight rows of a matrix lie in all banks.
template <int kTiles>
struct Stage {
  alignas(16) Bfloat16 x[kStepRows][kColumns + 8];
  alignas(16) Bfloat16 h[kStepRows][kTiles * 16 + 8];
};

template <int kTiles>
__device__ __forceinline__ void Bring(const Work<Bfloat16>& work, const Part& part, int row,
                                      int first_rank, Stage<kTiles>& stage) {
  const LoraGradientArgs& args = work.args;
  const int64_t first_column = int64_t{blockIdx.x} * kColumns;
  for (int i = static_cast<int>(threadIdx.x); i < kStepRows * (kColumns / 8); i += kThreads) {
    const int local = i / (kColumns / 8);
    const int64_t column = first_column + i % (kColumns / 8) * 8;
    const bool present = row + local < part.end && column < args.n;
    const Bfloat16* x = static_cast<const Bfloat16*>(args.x);
    attention::CopyAsync(attention::SharedAddress(&stage.x[local][i % (kColumns / 8) * 8]),
                         present ? x + (row + local) * args.x_stride + column : x, present);
  }
  for (int i = static_cast<int>(threadIdx.x); i < kStepRows * kTiles * 2; i += kThreads) {
    const int local = i / (kTiles * 2);
    const int rank = first_rank + i % (kTiles * 2) * 8;
    const bool present = row + local < part.end && rank < work.rank_stride;
    const Bfloat16* h = work.h + int64_t{row + local} * work.rank_stride + rank;
    attention::CopyAsync(attention::SharedAddress(&stage.h[local][i % (kTiles * 2) * 8]),
                         present ? h : work.h, present);
  }
  attention::CommitCopies();
}

// A warp has 32 columns and all ranks of the block.
template <int kTiles>
__device__ __forceinline__ void MultiplyStep(const Stage<kTiles>& stage,
                                             float (&sums)[kTiles][4][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int column = static_cast<int>(threadIdx.x) / 32 * 32;
  const int matrix = lane / 8;
#pragma unroll
  for (int k = 0; k < kStepRows; k += 16) {
    uint32_t x[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      attention::LoadMatricesTransposed(
          attention::SharedAddress(
              &stage.x[k + matrix % 2 * 8 + lane % 8][column + i * 16 + matrix / 2 * 8]),
          x[i]);
    }
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      uint32_t h[4];
      attention::LoadMatricesTransposed(
          attention::SharedAddress(
              &stage.h[k + matrix / 2 * 8 + lane % 8][tile * 16 + matrix % 2 * 8]),
          h);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        attention::MultiplyAdd<Bfloat16>(sums[tile][i], h, x[i / 2][i % 2 * 2],
                                         x[i / 2][i % 2 * 2 + 1]);
      }
    }
  }
}

template <int kTiles>
__global__ void __launch_bounds__(kThreads)
    TensorKernel(const __grid_constant__ Work<Bfloat16> work) {
  __shared__ Stage<kTiles> stages[2];
  LetNextStart();
  WaitForPrevious();
  const Part part = PartOf(work, static_cast<int>(blockIdx.y));
  const int first_rank = static_cast<int>(blockIdx.z) * kTiles * 16;
  if (part.begin >= part.end || first_rank >= part.segment.rank) return;
  float sums[kTiles][4][4] = {};
  Bring(work, part, part.begin, first_rank, stages[0]);
  int stage = 0;
  for (int row = part.begin; row < part.end; row += kStepRows, stage ^= 1) {
    const bool more = row + kStepRows < part.end;
    if (more) Bring(work, part, row + kStepRows, first_rank, stages[stage ^ 1]);
    if (more) {
      attention::WaitForCopies<1>();
    } else {
      attention::WaitForCopies<0>();
    }
    __syncthreads();
    MultiplyStep(stages[stage], sums);
    __syncthreads();
  }
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t first_column =
      int64_t{blockIdx.x} * kColumns + static_cast<int>(threadIdx.x) / 32 * 32 + lane % 4 * 2;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int rank = first_rank + tile * 16 + lane / 4 + e / 2 * 8;
        const int64_t column = first_column + i * 8 + e % 2;
        if (rank < part.segment.rank && column < work.args.n) {
          PutSum(work, part, rank, column, sums[tile][i][e]);
        }
      }
    }
  }
}

// Adds the parts of segments that have several. blockIdx.y is a segment, blockIdx.z a rank.
template <typename T>
__global__ void __launch_bounds__(kThreads) AddKernel(const __grid_constant__ Work<T> work) {
  LetNextStart();
  WaitForPrevious();
  const LoraGradientArgs& args = work.args;
  const auto s = static_cast<int>(blockIdx.y);
  const auto rank = static_cast<int>(blockIdx.z);
  const LoraGradientSegment segment = args.segments[s];
  const int64_t column = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int rows = segment.row_end - segment.row_begin;
  if (rows <= kLoraGradientPartRows || rank >= segment.rank || column >= args.n) return;
  const int64_t first = segment.row_begin / kLoraGradientPartRows + s;
  const int num_parts = (rows + kLoraGradientPartRows - 1) / kLoraGradientPartRows;
  float sum = 0.0f;
  for (int part = 0; part < num_parts; ++part) {
    sum += work.sums[((first + part) * args.rank_max + rank) * args.n + column];
  }
  float* out = segment.gradient + segment.rank * args.rank_offset + rank * args.n + column;
  *out = __fmaf_rn(segment.scale, sum, *out);
}

template <int kTiles>
void LaunchTensor(const Work<Bfloat16>& work, dim3 grid, Stream& stream) {
  grid.z = static_cast<unsigned>(CeilDiv(work.args.rank_max, kTiles * 16));
  LaunchKernel(TensorKernel<kTiles>, grid, dim3(kThreads), 0, CudaStreamOf(stream), work);
}

void LaunchSums(const Work<float>& work, dim3 grid, Stream& stream) {
  grid.z = static_cast<unsigned>(CeilDiv(work.args.rank_max, kPlainRanks));
  LaunchKernel(PlainKernel<float>, grid, dim3(kThreads), 0, CudaStreamOf(stream), work);
}

void LaunchSums(const Work<Bfloat16>& work, dim3 grid, Stream& stream) {
  const LoraGradientArgs& args = work.args;
  if (!IsVectorAligned(args.x) || args.x_stride % 8 != 0 || args.n % 8 != 0) {
    grid.z = static_cast<unsigned>(CeilDiv(args.rank_max, kPlainRanks));
    LaunchKernel(PlainKernel<Bfloat16>, grid, dim3(kThreads), 0, CudaStreamOf(stream), work);
  } else if (args.rank_max <= 16) {
    LaunchTensor<1>(work, grid, stream);
  } else if (args.rank_max <= 32) {
    LaunchTensor<2>(work, grid, stream);
  } else {
    LaunchTensor<kRankTiles>(work, grid, stream);
  }
}

template <typename T>
void Launch(const LoraGradientArgs& args, Stream& stream) {
  Work<T> work{.args = args,
               .h = reinterpret_cast<T*>(args.scratch),
               .sums = args.scratch + SumsBegin(args.num_rows, args.rank_max),
               .rank_stride = static_cast<int>(RankStride(args.rank_max)),
               .parts_max = static_cast<int>(CeilDiv(args.num_rows, kLoraGradientPartRows))};
  const int64_t elements = int64_t{args.num_rows} * work.rank_stride;
  LaunchKernel(RoundKernel<T>, GridOf(CeilDiv(elements, kThreads)), dim3(kThreads), 0,
               CudaStreamOf(stream), work);
  const int64_t tiles = CeilDiv(args.n, kColumns);
  LaunchSums(work, GridOf(tiles, int64_t{args.num_segments} * work.parts_max), stream);
  if (work.parts_max == 1) return;
  LaunchKernel(AddKernel<T>, GridOf(CeilDiv(args.n, kThreads), args.num_segments, args.rank_max),
               dim3(kThreads), 0, CudaStreamOf(stream), work);
}

}  // namespace
}  // namespace lora_gradient

void LoraGradientCuda(const LoraGradientArgs& args, Stream& stream) {
  if (args.x_dtype == DType::kF32) return lora_gradient::Launch<float>(args, stream);
  lora_gradient::Launch<Bfloat16>(args, stream);
}

}  // namespace graft
