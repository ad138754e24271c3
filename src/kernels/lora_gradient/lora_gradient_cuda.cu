// One launch for all matrices of a product. A thread block has 128 columns of a part of a segment's
// rows. Where the segment has one part the block adds its sums to the gradient. Else it leaves them
// in the scratch, and the last of a tile's blocks to do so adds all of them in the parts' order. So
// a counter says which block adds, and no result depends on which it is. bf16 goes through the
// tensor cores: ranks are the rows of a product, the batch's rows are what it sums over.
#include <algorithm>

#include "kernels/common/cuda_copy.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_math.cuh"
#include "kernels/common/cuda_mma.cuh"
#include "kernels/common/cuda_shared.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/lora_gradient/lora_gradient.h"
#include "kernels/lora_gradient/lora_gradient_work.h"

namespace graft {
namespace lora_gradient {
namespace {

constexpr int kThreads = 128;
constexpr int kStepRows = 32;  // that are brought at a time
constexpr int kStages = 3;
constexpr int kRanks = kLoraGradientRanks;
constexpr int kRoundWidth = 4;
constexpr int kAddRanks = 8;  // a thread reads parts of so many ranks at a time
static_assert(kThreads == kColumns);

struct Work {
  LoraGradientArgs args;
  int tiles_end[kLoraGradientProducts];       // tiles of columns up to a product's end
  int64_t sums_begin[kLoraGradientProducts];  // of a part's sums
  int64_t part_sums;
};

// What a thread block works on: rows [begin, end) of a segment, columns from `column` on of a
// product.
struct Block {
  LoraGradientSegment segment;
  int segment_idx;
  int begin = 0;
  int end = 0;
  int product_idx = 0;
  int64_t column = 0;
  int num_parts = 0;  // of the segment

  __device__ __forceinline__ Block(const Work& work) {
    const auto tile = static_cast<int>(blockIdx.x);
    int tiles_before = 0;
#pragma unroll
    for (int i = 0; i + 1 < kLoraGradientProducts; ++i) {
      if (i + 1 < work.args.num_products && tile >= work.tiles_end[i]) {
        product_idx = i + 1;
        tiles_before = work.tiles_end[i];
      }
    }
    column = int64_t{tile - tiles_before} * kColumns;
    const auto number = static_cast<int>(blockIdx.y);
    segment_idx = SegmentOf(work.args, number);
    if (segment_idx < 0) return;
    segment = work.args.segments[segment_idx];
    const int part = number - FirstPart(segment, segment_idx);
    const int rows = segment.row_end - segment.row_begin;
    if (part * kLoraGradientPartRows >= rows) return;
    begin = segment.row_begin + part * kLoraGradientPartRows;
    end = min(begin + kLoraGradientPartRows, segment.row_end);
    num_parts = (rows + kLoraGradientPartRows - 1) / kLoraGradientPartRows;
  }

  static __device__ int FirstPart(const LoraGradientSegment& segment, int segment_idx) {
    return segment.row_begin / kLoraGradientPartRows + segment_idx;
  }
  // The last segment that has a first part of `number` or lower; -1 if there is none.
  static __device__ int SegmentOf(const LoraGradientArgs& args, int number) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int count = 0;
    for (int first = 0; first < args.num_segments; first += 32) {
      const int s = first + lane;
      const bool begins = s < args.num_segments && FirstPart(args.segments[s], s) <= number;
      count += __popc(__ballot_sync(0xffffffffu, begins));
    }
    return count - 1;
  }
};

__device__ __forceinline__ float* GradientAt(const Work& work, const Block& block, int matrix,
                                             int rank, int64_t column) {
  const LoraGradientProduct& product = work.args.products[block.product_idx];
  return block.segment.gradient + block.segment.rank * product.rank_offset[matrix] +
         rank * product.n + column;
}

// Where the part with that number (lora_gradient_work.h) has its sum in the scratch.
__device__ __forceinline__ float* SumAt(const Work& work, const Block& block, int64_t number,
                                        int matrix, int rank, int64_t column) {
  const int64_t row = int64_t{matrix} * work.args.rank_max + rank;
  return work.args.scratch + number * work.part_sums + work.sums_begin[block.product_idx] +
         row * work.args.products[block.product_idx].n + column;
}

// A part's sum.
__device__ __forceinline__ void PutSum(const Work& work, const Block& block, int matrix, int rank,
                                       int64_t column, float sum) {
  if (rank >= block.segment.rank || column >= work.args.products[block.product_idx].n) return;
  if (block.num_parts == 1) {
    float* out = GradientAt(work, block, matrix, rank, column);
    *out = __fmaf_rn(block.segment.scale, sum, *out);
  } else {
    *SumAt(work, block, blockIdx.y, matrix, rank, column) = sum;
  }
}

// Whether all other blocks of this one's columns and ranks have put their sums. Called by all
// threads, when theirs are put.
__device__ __forceinline__ bool IsLast(const Work& work, const Block& block) {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t* counter =
        work.args.counters +
        (int64_t{blockIdx.z} * work.args.num_segments + block.segment_idx) * gridDim.x + blockIdx.x;
    is_last = atomicAdd(counter, 1u) + 1 == static_cast<uint32_t>(block.num_parts);
    if (is_last) *counter = 0;
    __threadfence();
  }
  __syncthreads();
  return is_last;
}

// Adds the parts' sums of `count` of a matrix's ranks to the gradient. A thread has a column.
__device__ __forceinline__ void AddParts(const Work& work, const Block& block, int matrix,
                                         int first_rank, int count) {
  const int64_t column = block.column + threadIdx.x;
  const int64_t n = work.args.products[block.product_idx].n;
  if (column >= n) return;
  const int64_t first_part = Block::FirstPart(block.segment, block.segment_idx);
  const int end = min(first_rank + count, block.segment.rank);
  for (int rank = first_rank; rank < end; rank += kAddRanks) {
    float sums[kAddRanks] = {};
    for (int part = 0; part < block.num_parts; ++part) {
      const float* from = SumAt(work, block, first_part + part, matrix, rank, column);
#pragma unroll
      for (int j = 0; j < kAddRanks; ++j) {
        if (rank + j < end) sums[j] += __ldcg(from + j * n);
      }
    }
#pragma unroll
    for (int j = 0; j < kAddRanks; ++j) {
      if (rank + j >= end) continue;
      float* out = GradientAt(work, block, matrix, rank + j, column);
      *out = __fmaf_rn(block.segment.scale, sums[j], *out);
    }
  }
}

// ---- A thread per column and eight ranks: for fp32, and for operands that are not on borders.
// ----

template <typename T>
__global__ void __launch_bounds__(kThreads) PlainKernel(const __grid_constant__ Work work) {
  LetNextStart();
  WaitForPrevious();
  const Block block(work);
  const LoraGradientProduct& product = work.args.products[block.product_idx];
  const int groups = (work.args.rank_max + kPlainRanks - 1) / kPlainRanks;
  const int matrix = static_cast<int>(blockIdx.z) / groups;
  const int first = static_cast<int>(blockIdx.z) % groups * kPlainRanks;
  if (block.begin >= block.end || matrix >= product.num_matrices || first >= block.segment.rank) {
    return;
  }
  const int64_t column = block.column + threadIdx.x;
  const int count = min(kPlainRanks, block.segment.rank - first);
  float sums[kPlainRanks] = {};
  for (int row = block.begin; row < block.end && column < product.n; ++row) {
    const float x = WidenElement(static_cast<const T*>(product.x)[row * product.x_stride + column]);
    const T* h = static_cast<const T*>(product.h) + row * product.h_stride +
                 matrix * product.h_matrix + first;
#pragma unroll
    for (int j = 0; j < kPlainRanks; ++j) {
      if (j < count) sums[j] = __fmaf_rn(WidenElement(h[j]), x, sums[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < kPlainRanks; ++j) {
    if (j < count) PutSum(work, block, matrix, first + j, column, sums[j]);
  }
  if (block.num_parts > 1 && IsLast(work, block)) AddParts(work, block, matrix, first, count);
}

// ---- bf16 on the tensor cores. ----

// Rows of x and h in shared memory, padded so that the eight rows of a matrix lie in all banks.
struct Stage {
  alignas(16) Bfloat16 x[kStepRows][kColumns + 8];
  alignas(16) Bfloat16 h[kStepRows][kGroupTiles * kRanks + 8];
};

// `ranks`: the columns of h from `first` on that the block has.
__device__ __forceinline__ void Bring(const LoraGradientProduct& product, const Block& block,
                                      int row, int first, int ranks, Stage& stage) {
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < kStepRows * (kColumns / 8); i += kThreads) {
    const int local = i / (kColumns / 8);
    const int64_t column = block.column + i % (kColumns / 8) * 8;
    const bool present = row + local < block.end && column < product.n;
    const auto* x = static_cast<const Bfloat16*>(product.x);
    CopyLineOnceAsync(SharedAddress(&stage.x[local][i % (kColumns / 8) * 8]),
                      present ? x + (row + local) * product.x_stride + column : x, present);
  }
  const int pieces = ranks / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kStepRows * pieces; i += kThreads) {
    const int local = i / pieces;
    const bool present = row + local < block.end;
    const auto* h = static_cast<const Bfloat16*>(product.h);
    CopyLineOnceAsync(SharedAddress(&stage.h[local][i % pieces * 8]),
                      present ? h + (row + local) * product.h_stride + first + i % pieces * 8 : h,
                      present);
  }
}

// A warp has 32 columns and all ranks of the block.
template <int kTiles>
__device__ __forceinline__ void MultiplyStep(const Stage& stage, float (&sums)[kTiles][4][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int column = static_cast<int>(threadIdx.x) / 32 * 32;
  const int matrix = lane / 8;
#pragma unroll
  for (int k = 0; k < kStepRows; k += 16) {
    uint32_t x[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      LoadMatricesTransposed(
          SharedAddress(&stage.x[k + matrix % 2 * 8 + lane % 8][column + i * 16 + matrix / 2 * 8]),
          x[i]);
    }
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      uint32_t h[4];
      LoadMatricesTransposed(
          SharedAddress(&stage.h[k + matrix / 2 * 8 + lane % 8][tile * kRanks + matrix % 2 * 8]),
          h);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        MultiplyAdd<Bfloat16>(sums[tile][i], h, x[i / 2][i % 2 * 2], x[i / 2][i % 2 * 2 + 1]);
      }
    }
  }
}

// Tiles [first_tile, first_tile + kTiles) of 16 ranks; tiles_of_matrix of them are one matrix's.
template <int kTiles>
__device__ __forceinline__ void RunTiles(const Work& work, const Block& block, int first_tile,
                                         int tiles_of_matrix, Stage (&stages)[kStages]) {
  const LoraGradientProduct& product = work.args.products[block.product_idx];
  float sums[kTiles][4][4] = {};
  const int num_steps = (block.end - block.begin + kStepRows - 1) / kStepRows;
  const auto bring = [&](int step) {
    if (step < num_steps) {
      Bring(product, block, block.begin + step * kStepRows, first_tile * kRanks, kTiles * kRanks,
            stages[step % kStages]);
    }
    CommitCopies();
  };
#pragma unroll
  for (int step = 0; step < kStages - 1; ++step) bring(step);
  for (int step = 0; step < num_steps; ++step) {
    WaitForCopies<kStages - 2>();
    __syncthreads();  // also: no thread still reads the stage that is filled next
    bring(step + kStages - 1);
    MultiplyStep(stages[step % kStages], sums);
  }
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t first_column =
      block.column + static_cast<int>(threadIdx.x) / 32 * 32 + lane % 4 * 2;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const int matrix = (first_tile + tile) / tiles_of_matrix;
    const int first_rank = (first_tile + tile) % tiles_of_matrix * kRanks + lane / 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        PutSum(work, block, matrix, first_rank + e / 2 * 8, first_column + i * 8 + e % 2,
               sums[tile][i][e]);
      }
    }
  }
  if (block.num_parts == 1 || !IsLast(work, block)) return;
#pragma unroll 1
  for (int tile = first_tile; tile < first_tile + kTiles; ++tile) {
    AddParts(work, block, tile / tiles_of_matrix, tile % tiles_of_matrix * kRanks, kRanks);
  }
}

__global__ void __launch_bounds__(kThreads, 4) TensorKernel(const __grid_constant__ Work work) {
  __shared__ Stage stages[kStages];
  LetNextStart();
  WaitForPrevious();
  const Block block(work);
  const int tiles_of_matrix = (work.args.rank_max + kRanks - 1) / kRanks;
  const int first_tile = static_cast<int>(blockIdx.z) * kGroupTiles;
  const int num_tiles =
      work.args.products[block.product_idx].num_matrices * tiles_of_matrix - first_tile;
  if (block.begin >= block.end || num_tiles <= 0) return;
  if (num_tiles == 1) {
    RunTiles<1>(work, block, first_tile, tiles_of_matrix, stages);
  } else if (num_tiles == 2) {
    RunTiles<2>(work, block, first_tile, tiles_of_matrix, stages);
  } else if (num_tiles == 3) {
    RunTiles<3>(work, block, first_tile, tiles_of_matrix, stages);
  } else {
    RunTiles<kGroupTiles>(work, block, first_tile, tiles_of_matrix, stages);
  }
}

// ---- Rounding h: a thread per row, slice and four ranks. ----

template <typename T, bool kVectors>
__global__ void __launch_bounds__(kThreads)
    RoundKernel(const __grid_constant__ LoraGradientRoundArgs args, int64_t num_threads,
                int quads_of_slice) {
  LetNextStart();
  WaitForPrevious();
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= num_threads) return;
  const int64_t unit = i / quads_of_slice;
  const int64_t row = unit / args.num_slices;
  const int64_t slice = unit % args.num_slices;
  const int first = static_cast<int>(i % quads_of_slice) * kRoundWidth;
  const int64_t count = args.rank_max - first;
  const float* h = args.h + slice * args.h_slice + row * args.h_stride + first;
  float sums[kRoundWidth] = {};
#pragma unroll 8
  for (int part = 0; part < args.num_parts; ++part) {
    float values[kRoundWidth];
    LoadRun<kVectors>(h + part * args.part, count, values);
#pragma unroll
    for (int j = 0; j < kRoundWidth; ++j) sums[j] += values[j];
  }
  StoreRun<true>(sums, kRoundWidth, static_cast<T*>(args.out) + i * kRoundWidth);
}

bool IsOnBorders(const LoraGradientProduct& product) {
  return IsVectorAligned(product.x) && product.x_stride % 8 == 0 && product.n % 8 == 0;
}

void Launch(const LoraGradientArgs& args, Stream& stream) {
  Work work{.args = args};
  int tiles = 0;
  int num_matrices = 0;
  bool on_borders = args.dtype == DType::kBF16;
  for (int32_t i = 0; i < args.num_products; ++i) {
    const LoraGradientProduct& product = args.products[i];
    tiles += static_cast<int>(CeilDiv(product.n, kColumns));
    work.tiles_end[i] = tiles;
    work.sums_begin[i] = work.part_sums;
    work.part_sums += int64_t{product.num_matrices} * args.rank_max * product.n;
    num_matrices = std::max(num_matrices, product.num_matrices);
    on_borders = on_borders && IsOnBorders(product);
  }
  const int64_t parts = NumParts(args.num_rows, args.num_segments);
  const int64_t rank_tiles = num_matrices * CeilDiv(args.rank_max, kRanks);
  const int64_t groups =
      on_borders ? CeilDiv(rank_tiles, kGroupTiles) : PlainGroups(num_matrices, args.rank_max);
  const auto kernel = on_borders                  ? TensorKernel
                      : args.dtype == DType::kF32 ? PlainKernel<float>
                                                  : PlainKernel<Bfloat16>;
  LaunchKernel(kernel, GridOf(tiles, parts, groups), dim3(kThreads), 0, CudaStreamOf(stream), work);
}

template <typename T>
void LaunchRound(const LoraGradientRoundArgs& args, Stream& stream) {
  const auto quads = static_cast<int>(LoraGradientRankStride(args.rank_max) / kRoundWidth);
  const int64_t num_threads = int64_t{args.num_rows} * args.num_slices * quads;
  const bool vectors = IsVectorAligned(args.h) && args.rank_max % kRoundWidth == 0 &&
                       args.h_stride % kRoundWidth == 0 && args.h_slice % kRoundWidth == 0 &&
                       args.part % kRoundWidth == 0;
  DispatchVectors(vectors, [&]<bool kVectors>() {
    LaunchKernel(RoundKernel<T, kVectors>, GridOf(CeilDiv(num_threads, kThreads)), dim3(kThreads),
                 0, CudaStreamOf(stream), args, num_threads, quads);
  });
}

}  // namespace
}  // namespace lora_gradient

void LoraGradientCuda(const LoraGradientArgs& args, Stream& stream) {
  lora_gradient::Launch(args, stream);
}

void LoraGradientRoundCuda(const LoraGradientRoundArgs& args, Stream& stream) {
  if (args.dtype == DType::kF32) return lora_gradient::LaunchRound<float>(args, stream);
  lora_gradient::LaunchRound<Bfloat16>(args, stream);
}

}  // namespace graft
