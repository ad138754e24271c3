// What the tensor cores' kernels of attention's backward share: tiles of rows of a head in shared
// memory, their products on Hopper, and what a thread block works on.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_prompt.cuh"
#include "kernels/attention_backward/attention_backward_cuda.cuh"
#include "kernels/common/cuda_copy.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_math.cuh"
#include "kernels/common/cuda_mma.cuh"
#include "kernels/common/cuda_reduce.cuh"
#include "kernels/common/cuda_shared.cuh"
#include "kernels/common/cuda_vector.cuh"

namespace graft::attention_backward {

// A block has so many rows, 16 a warp, and brings as many at a time. Shapes of other kernels may
// have fewer.
inline constexpr int kRows = 64;
inline constexpr int kMeansThreads = 128;

// Rows of a head in shared memory as the matrix instruction reads them. 64 dimensions of a row take
// 128 bytes, in which the pieces of 16 bytes are swizzled. The next 64 dimensions of all rows lie
// behind the first 64 of all rows.
template <int kDim, int kTileRows = kRows>
struct Tile {
  static constexpr int kAtomBytes = kTileRows * 128;
  static constexpr int kBytes = (kDim + 63) / 64 * kAtomBytes;

  static __device__ __forceinline__ uint32_t Offset(int row, int piece) {
    return static_cast<uint32_t>(piece / 8 * kAtomBytes + row * 128 + (piece % 8 ^ row % 8) * 16);
  }
};

// A block's shared memory, from a border of 1 KiB on. kStages: of the others' tiles. kOverBytes:
// of what lies over the tiles in the end.
template <int kDim, int kTileRows = kRows, int kStages = 2, int kOverBytes = 0>
struct Shared {
  static constexpr int kTile = Tile<kDim, kTileRows>::kBytes;
  static constexpr int kTiles = (2 + 2 * kStages) * kTile;
  static constexpr int kStats = kTiles > kOverBytes ? kTiles : kOverBytes;
  static constexpr int kBytes = kStats + 2 * 2 * kTileRows * 4;

  unsigned char* bytes;
  uint32_t address;

  __device__ explicit Shared(unsigned char* shared)
      : bytes(shared), address(SharedAddress(shared)) {}
  __device__ uint32_t Mine(int which) const { return address + which * kTile; }
  __device__ uint32_t Others(int stage, int which) const {
    return address + (2 + stage * 2 + which) * kTile;
  }
  // A number for each row of Others where those are queries, [kTileRows]: log_sums (which = 0) or
  // means (which = 1) of Params. There are two stages of them always.
  __device__ float* Stats(int stage, int which) const {
    return reinterpret_cast<float*>(bytes + kStats) + (stage * 2 + which) * kTileRows;
  }
};

// A head's rows of a sequence: element (row, dim) is data[row * stride + dim].
struct Rows {
  const Bfloat16* data;
  int64_t stride;
};

// Rounds values[mine, others] to operands of MultiplyAdd.
template <int kCount>
__device__ __forceinline__ void Pack(const float (&values)[kCount],
                                     uint32_t (&packed)[kCount / 8][4]) {
#pragma unroll
  for (int k = 0; k < kCount / 8; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      packed[k][i] = PackPair<Bfloat16>(values[8 * k + 2 * i], values[8 * k + 2 * i + 1]);
    }
  }
}

#if defined(GRAFT_HOPPER)

// Waits until the copies of all groups but the last are there, for the products of all threads.
__device__ __forceinline__ void AwaitRows() {
  WaitForCopies<1>();
  FenceForAsync();
  __syncthreads();
}

// Starts products[mine, others] of the rows of two tiles, with the first kColumns of the others.
template <int kDim, int kColumns = kRows>
__device__ __forceinline__ void Multiply(uint32_t mine, uint32_t others,
                                         float (&products)[kColumns / 2]) {
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    const uint32_t at = k / 4 * Tile<kDim>::kAtomBytes + k % 4 * 32;
    Wgmma<DType::kBF16, kColumns>::Multiply(attention::SwizzledOperand(mine + at, 1024, 16),
                                            attention::SwizzledOperand(others + at, 1024, 16),
                                            k > 0, products);
  }
}

// Starts sums[mine, dims] += values[mine, others] others[others, dims], of 16 kSteps others.
template <int kDim, int kSteps>
__device__ __forceinline__ void MultiplyAdd(const uint32_t (&values)[kSteps][4], uint32_t others,
                                            float (&sums)[kDim / 2]) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    attention::WeightsWgmma<DType::kBF16, kDim>::Multiply(
        values[k], attention::SwizzledOperand(others + k * 2 * 1024, 1024, Tile<kDim>::kAtomBytes),
        sums);
  }
}

#endif  // GRAFT_HOPPER

// What a thread block works on: a sequence, and so many rows of it, or positions of its prefix.
struct Block {
  int begin;     // the sequence's first row
  int num_rows;  // of the sequence
  int first;     // of the block's rows, counted from `begin`, or of its positions
  AttentionPrefix prefix;

  // The grid begins with the rows that have most to do, of all heads of a sequence. Few sequences
  // are worked on at a time, so that the second-level cache holds their rows.
  __device__ Block(const AttentionBackwardArgs& args, bool from_last, int rows = kRows) {
    const auto sequence = static_cast<int>(blockIdx.z);
    begin = args.row_begin[sequence];
    num_rows = args.row_begin[sequence + 1] - begin;
    if (args.prefixes != nullptr) prefix = args.prefixes[sequence];
    const int tile = static_cast<int>(from_last ? gridDim.y - 1 - blockIdx.y : blockIdx.y);
    first = tile * rows;
  }
};

__device__ __forceinline__ Rows HeadRows(const AttentionBackwardArgs& args, const Block& block,
                                         int head) {
  return {static_cast<const Bfloat16*>(args.qkv) + block.begin * args.qkv_stride +
              int64_t{head} * args.head_dim,
          args.qkv_stride};
}
// A key head's rows of the sequence's prefix; from head num_kv_heads on they are values.
__device__ __forceinline__ Rows PrefixRows(const AttentionBackwardArgs& args, const Block& block,
                                           int head) {
  return {static_cast<const Bfloat16*>(block.prefix.keys_values) + int64_t{head} * args.head_dim,
          block.prefix.stride};
}
__device__ __forceinline__ Rows GradientRows(const Params& params, const Block& block, int head) {
  const int64_t stride = int64_t{params.args.num_heads} * params.args.head_dim;
  return {params.d_rounded + block.begin * stride + int64_t{head} * params.args.head_dim, stride};
}

// The keys or values that a block's queries see, in tiles: a prefix's, and behind them those of the
// sequence's own rows.
template <int kTileRows>
struct SeenTiles {
  Rows prefix, own;
  int num_prefix;    // positions
  int prefix_tiles;  // that they take
  int num_rows;      // of the sequence

  __device__ SeenTiles(const AttentionBackwardArgs& args, const Block& block, int head)
      : prefix(PrefixRows(args, block, head)),
        own(HeadRows(args, block, args.num_heads + head)),
        num_prefix(block.prefix.num_tokens),
        prefix_tiles((num_prefix + kTileRows - 1) / kTileRows),
        num_rows(block.num_rows) {}

  // Calls bring(rows, the tile's first, how many there are of them).
  template <typename Bring>
  __device__ __forceinline__ void WithTile(int tile, const Bring& bring) const {
    const bool is_own = tile >= prefix_tiles;
    // Chosen one by one, they stay in registers.
    const Rows rows = {is_own ? own.data : prefix.data, is_own ? own.stride : prefix.stride};
    bring(rows, (is_own ? tile - prefix_tiles : tile) * kTileRows, is_own ? num_rows : num_prefix);
  }
  // How many of a tile's keys the sequence's row `row` sees if there is no window: none where this
  // is below 1, all where it is kTileRows or more. Masks: whether any row might not see all of
  // them.
  __device__ __forceinline__ int NumSeen(int tile, int row) const {
    return tile < prefix_tiles ? num_prefix - tile * kTileRows
                               : row + 1 - (tile - prefix_tiles) * kTileRows;
  }
  __device__ __forceinline__ bool Masks(int tile, int num_tiles) const {
    return tile + 1 == num_tiles || tile + 1 == prefix_tiles;
  }
};
using Seen = SeenTiles<kRows>;

// Rounds the gradient of what attention made, where it is fp32, and forms the queries' means. A
// warp per row and head. Head: a type of the file that launches it, so that each file has a kernel
// of its own, for the cards that it is compiled for. kFills: heads of fewer dimensions than
// Head::kDim, by eights.
template <typename Head, bool kFills, bool kRounds>
__global__ void __launch_bounds__(kMeansThreads)
    MeansKernel(const __grid_constant__ Params params) {
  constexpr int kDim = Head::kDim;
  constexpr int kWidth = kDim / 32 < 4 ? 4 : kDim / 32;
  const AttentionBackwardArgs& args = params.args;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t unit = int64_t{blockIdx.x} * (kMeansThreads / 32) + threadIdx.x / 32;
  const int head_dim = kFills ? args.head_dim : kDim;
  LetNextStart();
  WaitForPrevious();
  if (unit >= int64_t{args.num_rows} * args.num_heads) return;
  const int64_t begin = unit * head_dim + lane * kWidth;
  const int64_t count = lane * kWidth < head_dim ? kWidth : 0;
  float d[kWidth], out[kWidth];
  if constexpr (kRounds) {
    LoadRun<true>(static_cast<const float*>(args.d_out) + begin, count, d);
#pragma unroll
    for (float& value : d) value = WidenElement(NarrowElement<Bfloat16>(value));
    StoreRun<true>(d, count, params.d_rounded + begin);
  } else {
    LoadRun<true>(params.d_rounded + begin, count, d);
  }
  LoadRun<true>(static_cast<const Bfloat16*>(args.out) + begin, count, out);
  float mean = 0.0f;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) mean = __fmaf_rn(d[i], out[i], mean);
  mean = ReduceWarp(mean, Add{});
  const int64_t row = unit / args.num_heads;
  if (lane == 0) params.means[unit % args.num_heads * args.num_rows + row] = mean;
}

template <typename Head, bool kFills>
void LaunchMeans(const Params& params, Stream& stream) {
  const int64_t units = int64_t{params.args.num_rows} * params.args.num_heads;
  LaunchKernel(params.rounds ? MeansKernel<Head, kFills, true> : MeansKernel<Head, kFills, false>,
               GridOf(CeilDiv(units, kMeansThreads / 32)), dim3(kMeansThreads), 0,
               CudaStreamOf(stream), params);
}

}  // namespace graft::attention_backward
