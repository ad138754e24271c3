// bf16 on the tensor cores, after FlashAttention-2 (arXiv 2307.08691), without its atomic sums: one
// kernel takes 64 queries of a head and goes over the keys before them, another one 64 keys and
// goes over the queries behind them in every head of the group. Both compute the scores again. Each
// sum has one thread and one order.
#include "kernels/attention/attention_ptx.cuh"
#include "kernels/attention_backward/attention_backward_cuda.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_reduce.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/rope/rotate_pair.cuh"

namespace graft::attention_backward {
namespace {

using attention::CommitCopies;
using attention::Exp2;
using attention::LoadMatrices;
using attention::LoadMatricesTransposed;
using attention::PackPair;
using attention::SharedAddress;
using attention::WaitForCopies;

constexpr int kThreads = 128;
constexpr int kMine = 64;    // rows of a thread block, 16 of a warp
constexpr int kOthers = 32;  // rows that are brought at a time
constexpr int kTiles = kOthers / 8;

// Rows are padded so that the eight rows of a matrix lie in all banks.
template <int kDim>
struct Shared {
  alignas(16) Bfloat16 mine[2][kMine][kDim + 8];
  alignas(16) Bfloat16 others[2][2][kOthers][kDim + 8];  // [stage][which]
  float stats[2][2][kOthers];                            // of others, where those are queries
};

__device__ __forceinline__ void CopyWord(uint32_t to, const float* from, bool present) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
               "r"(present ? 4 : 0)
               : "memory");
}

// A head's rows of a sequence: element (row, dim) is data[row * stride + dim].
struct Rows {
  const Bfloat16* data;
  int64_t stride;
};

// Rows [first, first + kCount) of `num_rows`; zeros behind them.
template <int kDim, int kCount>
__device__ __forceinline__ void BringRows(const Rows& rows, int first, int num_rows,
                                          Bfloat16 (*to)[kDim + 8]) {
  constexpr int kPieces = kDim / 8;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < kCount * kPieces; i += kThreads) {
    const int row = first + i / kPieces;
    const bool present = row < num_rows;
    const Bfloat16* from = rows.data + (present ? row : 0) * rows.stride + i % kPieces * 8;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     SharedAddress(&to[i / kPieces][i % kPieces * 8])),
                 "l"(from), "r"(present ? 16 : 0)
                 : "memory");
  }
}

// products[tile] of this warp's 16 rows of `mine` and all rows of `others`.
template <int kDim>
__device__ __forceinline__ void Multiply(const Bfloat16 (*mine)[kDim + 8],
                                         const Bfloat16 (*others)[kDim + 8],
                                         float (&products)[kTiles][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = static_cast<int>(threadIdx.x) / 32 * 16;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int e = 0; e < 4; ++e) products[tile][e] = 0.0f;
  }
#pragma unroll
  for (int k = 0; k < kDim; k += 16) {
    uint32_t a[4];
    LoadMatrices(SharedAddress(&mine[first + lane % 16][k + lane / 16 * 8]), a);
#pragma unroll
    for (int tile = 0; tile < kTiles; tile += 2) {
      uint32_t b[4];
      LoadMatrices(
          SharedAddress(&others[tile * 8 + lane / 16 * 8 + lane % 8][k + lane / 8 % 2 * 8]), b);
      attention::MultiplyAdd<Bfloat16>(products[tile], a, b[0], b[1]);
      attention::MultiplyAdd<Bfloat16>(products[tile + 1], a, b[2], b[3]);
    }
  }
}

// sums += values others, where values are this warp's 16 rows by those of `others`.
template <int kDim>
__device__ __forceinline__ void MultiplyAdd(const float (&values)[kTiles][4],
                                            const Bfloat16 (*others)[kDim + 8],
                                            float (&sums)[kDim / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int k = 0; k < kTiles; k += 2) {
    const uint32_t a[4] = {PackPair<Bfloat16>(values[k][0], values[k][1]),
                           PackPair<Bfloat16>(values[k][2], values[k][3]),
                           PackPair<Bfloat16>(values[k + 1][0], values[k + 1][1]),
                           PackPair<Bfloat16>(values[k + 1][2], values[k + 1][3])};
#pragma unroll
    for (int tile = 0; tile < kDim / 8; tile += 2) {
      uint32_t b[4];
      LoadMatricesTransposed(
          SharedAddress(&others[k * 8 + lane / 8 % 2 * 8 + lane % 8][tile * 8 + lane / 16 * 8]), b);
      attention::MultiplyAdd<Bfloat16>(sums[tile], a, b[0], b[1]);
      attention::MultiplyAdd<Bfloat16>(sums[tile + 1], a, b[2], b[3]);
    }
  }
}

// What a thread block works on: a sequence, and 64 rows of it.
struct Block {
  int begin;     // the sequence's first row
  int num_rows;  // of the sequence
  int first;     // of the block's rows, counted from `begin`

  // The rows that have most to do first.
  __device__ Block(const AttentionBackwardArgs& args, bool from_last) {
    const auto sequence = static_cast<int>(blockIdx.z);
    begin = args.row_begin[sequence];
    num_rows = args.row_begin[sequence + 1] - begin;
    const int tile = static_cast<int>(from_last ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    first = tile * kMine;
  }
};

__device__ __forceinline__ Rows HeadRows(const AttentionBackwardArgs& args, const Block& block,
                                         int head) {
  return {static_cast<const Bfloat16*>(args.qkv) + block.begin * args.qkv_stride +
              int64_t{head} * args.head_dim,
          args.qkv_stride};
}
__device__ __forceinline__ Rows GradientRows(const Params& params, const Block& block, int head) {
  const int64_t stride = int64_t{params.args.num_heads} * params.args.head_dim;
  return {params.d_rounded + block.begin * stride + int64_t{head} * params.args.head_dim, stride};
}

// Writes this warp's rows of a head: `sums` by `scale`, turned back if asked for.
template <int kDim>
__device__ __forceinline__ void StoreRows(const AttentionBackwardArgs& args, const Block& block,
                                          int head, float scale, bool turns,
                                          float (&sums)[kDim / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int local = block.first + static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4 + half * 8;
    if (local >= block.num_rows) continue;
    const int row = block.begin + local;
    const int64_t angles = turns ? int64_t{args.positions[row]} * (kDim / 2) : 0;
    Bfloat16* out = static_cast<Bfloat16*>(args.d_qkv) + row * args.qkv_stride +
                    int64_t{head} * kDim + lane % 4 * 2;
#pragma unroll
    for (int tile = 0; tile < kDim / 16; ++tile) {
      float low[2], high[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        low[e] = sums[tile][half * 2 + e] * scale;
        high[e] = sums[tile + kDim / 16][half * 2 + e] * scale;
        if (!turns) continue;
        const int64_t angle = angles + tile * 8 + lane % 4 * 2 + e;
        RotatePair(args.cos[angle], args.back_sin[angle], &low[e], &high[e]);
      }
      *reinterpret_cast<uint32_t*>(out + tile * 8) = PackPair<Bfloat16>(low[0], low[1]);
      *reinterpret_cast<uint32_t*>(out + tile * 8 + kDim / 2) =
          PackPair<Bfloat16>(high[0], high[1]);
    }
  }
}

// Rounds the gradient of what attention made, and forms the queries' means. A warp per row and
// head.
template <int kDim>
__global__ void __launch_bounds__(kThreads) RoundKernel(const __grid_constant__ Params params) {
  constexpr int kWidth = kDim / 32 < 4 ? 4 : kDim / 32;
  const AttentionBackwardArgs& args = params.args;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t unit = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  LetNextStart();
  WaitForPrevious();
  if (unit >= int64_t{args.num_rows} * args.num_heads) return;
  const int64_t begin = unit * kDim + lane * kWidth;
  const int64_t count = lane * kWidth < kDim ? kWidth : 0;
  float d[kWidth], out[kWidth];
  LoadRun<true>(args.d_out + begin, count, d);
  LoadRun<true>(static_cast<const Bfloat16*>(args.out) + begin, count, out);
  float mean = 0.0f;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    d[i] = WidenElement(NarrowElement<Bfloat16>(d[i]));
    mean = __fmaf_rn(d[i], out[i], mean);
  }
  StoreRun<true>(d, count, params.d_rounded + begin);
  mean = ReduceWarp(mean, Add{});
  const int64_t row = unit / args.num_heads;
  if (lane == 0) params.means[unit % args.num_heads * args.num_rows + row] = mean;
}

// The logarithms of the sums of this thread's two rows, lane / 4 and 8 further on.
template <int kDim>
__device__ __forceinline__ void SumScores(const Params& params, const Block& block,
                                          const Rows& keys, int num_tiles, Shared<kDim>& shared,
                                          float (&log_sums)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = block.first + static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
  float maxima[2] = {-INFINITY, -INFINITY}, sums[2] = {};
  for (int tile = 0; tile < num_tiles; ++tile) {
    if (tile + 1 < num_tiles) {
      BringRows<kDim, kOthers>(keys, (tile + 1) * kOthers, block.num_rows,
                               shared.others[(tile + 1) % 2][0]);
    }
    CommitCopies();
    WaitForCopies<1>();
    __syncthreads();
    float scores[kTiles][4];
    Multiply<kDim>(shared.mine[0], shared.others[tile % 2][0], scores);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = maxima[half];
#pragma unroll
      for (int i = 0; i < kTiles * 2; ++i) {
        const int key = tile * kOthers + i / 2 * 8 + lane % 4 * 2 + i % 2;
        float& score = scores[i / 2][half * 2 + i % 2];
        score = key <= first + half * 8 ? score * params.scale_log2 : -INFINITY;
        largest = fmaxf(largest, score);
      }
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
      sums[half] *= Exp2(maxima[half] - largest);  // the first tile has a key that is seen
#pragma unroll
      for (int i = 0; i < kTiles * 2; ++i) {
        sums[half] += Exp2(scores[i / 2][half * 2 + i % 2] - largest);
      }
      maxima[half] = largest;
    }
    __syncthreads();
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    sums[half] += __shfl_xor_sync(0xffffffffu, sums[half], 1);
    sums[half] += __shfl_xor_sync(0xffffffffu, sums[half], 2);
    log_sums[half] = maxima[half] + log2f(sums[half]);
  }
}

// blockIdx: 64 queries, head, sequence.
template <int kDim>
__global__ void __launch_bounds__(kThreads, 2)
    QueriesKernel(const __grid_constant__ Params params) {
  extern __shared__ __align__(16) char bytes[];
  Shared<kDim>& shared = *reinterpret_cast<Shared<kDim>*>(bytes);
  const AttentionBackwardArgs& args = params.args;
  LetNextStart();
  WaitForPrevious();
  const Block block(args, true);
  if (block.first >= block.num_rows) return;
  const auto head = static_cast<int>(blockIdx.y);
  const int key_head = args.num_heads + head / params.group;
  const Rows keys = HeadRows(args, block, key_head);
  const Rows values = HeadRows(args, block, key_head + args.num_kv_heads);
  const int last = min(block.first + kMine, block.num_rows);
  const int num_tiles = (last + kOthers - 1) / kOthers;
  BringRows<kDim, kMine>(HeadRows(args, block, head), block.first, block.num_rows, shared.mine[0]);
  BringRows<kDim, kMine>(GradientRows(params, block, head), block.first, block.num_rows,
                         shared.mine[1]);
  BringRows<kDim, kOthers>(keys, 0, block.num_rows, shared.others[0][0]);
  CommitCopies();
  float log_sums[2], means[2];
  SumScores<kDim>(params, block, keys, num_tiles, shared, log_sums);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = block.first + static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int local = first + half * 8;
    const int64_t stat = int64_t{head} * args.num_rows + block.begin + local;
    means[half] = local < block.num_rows ? params.means[stat] : 0.0f;
    if (lane % 4 == 0 && local < block.num_rows) params.log_sums[stat] = log_sums[half];
  }
  const auto bring = [&](int tile) {
    BringRows<kDim, kOthers>(keys, tile * kOthers, block.num_rows, shared.others[tile % 2][0]);
    BringRows<kDim, kOthers>(values, tile * kOthers, block.num_rows, shared.others[tile % 2][1]);
  };
  bring(0);
  CommitCopies();
  float sums[kDim / 8][4] = {};
  for (int tile = 0; tile < num_tiles; ++tile) {
    if (tile + 1 < num_tiles) bring(tile + 1);
    CommitCopies();
    WaitForCopies<1>();
    __syncthreads();
    float scores[kTiles][4], worths[kTiles][4];
    Multiply<kDim>(shared.mine[0], shared.others[tile % 2][0], scores);
    Multiply<kDim>(shared.mine[1], shared.others[tile % 2][1], worths);
#pragma unroll
    for (int i = 0; i < kTiles * 4; ++i) {
      const int half = i % 4 / 2;
      const int key = tile * kOthers + i / 4 * 8 + lane % 4 * 2 + i % 2;
      const float weight =
          Exp2(__fmaf_rn(scores[i / 4][i % 4], params.scale_log2, -log_sums[half]));
      scores[i / 4][i % 4] =
          key <= first + half * 8 ? weight * (worths[i / 4][i % 4] - means[half]) : 0.0f;
    }
    MultiplyAdd<kDim>(scores, shared.others[tile % 2][0], sums);
    __syncthreads();
  }
  StoreRows<kDim>(args, block, head, args.scale, true, sums);
}

// blockIdx: 64 keys, key head, sequence.
template <int kDim>
__global__ void __launch_bounds__(kThreads, 2) KeysKernel(const __grid_constant__ Params params) {
  extern __shared__ __align__(16) char bytes[];
  Shared<kDim>& shared = *reinterpret_cast<Shared<kDim>*>(bytes);
  const AttentionBackwardArgs& args = params.args;
  LetNextStart();
  WaitForPrevious();
  const Block block(args, false);
  if (block.first >= block.num_rows) return;
  const auto kv_head = static_cast<int>(blockIdx.y);
  const int key_head = args.num_heads + kv_head;
  const int first_tile = block.first / kOthers;
  const int num_tiles = (block.num_rows + kOthers - 1) / kOthers - first_tile;  // of a head
  const int num_steps = num_tiles * params.group;
  const auto bring = [&](int step) {
    const int head = kv_head * params.group + step / num_tiles;
    const int row = (first_tile + step % num_tiles) * kOthers;
    const int stage = step % 2;
    BringRows<kDim, kOthers>(HeadRows(args, block, head), row, block.num_rows,
                             shared.others[stage][0]);
    BringRows<kDim, kOthers>(GradientRows(params, block, head), row, block.num_rows,
                             shared.others[stage][1]);
    if (threadIdx.x >= 2 * kOthers) return;
    const int local = row + static_cast<int>(threadIdx.x) % kOthers;
    const int which = static_cast<int>(threadIdx.x) / kOthers;
    const float* stats = which == 0 ? params.log_sums : params.means;
    const bool present = local < block.num_rows;
    CopyWord(SharedAddress(&shared.stats[stage][which][threadIdx.x % kOthers]),
             stats + int64_t{head} * args.num_rows + block.begin + (present ? local : 0), present);
  };
  BringRows<kDim, kMine>(HeadRows(args, block, key_head), block.first, block.num_rows,
                         shared.mine[0]);
  BringRows<kDim, kMine>(HeadRows(args, block, key_head + args.num_kv_heads), block.first,
                         block.num_rows, shared.mine[1]);
  bring(0);
  CommitCopies();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = block.first + static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
  float keys[kDim / 8][4] = {}, values[kDim / 8][4] = {};
  for (int step = 0; step < num_steps; ++step) {
    if (step + 1 < num_steps) bring(step + 1);
    CommitCopies();
    WaitForCopies<1>();
    __syncthreads();
    const int stage = step % 2;
    const int row = (first_tile + step % num_tiles) * kOthers;
    float weights[kTiles][4], worths[kTiles][4];
    Multiply<kDim>(shared.mine[0], shared.others[stage][0], weights);
    Multiply<kDim>(shared.mine[1], shared.others[stage][1], worths);
#pragma unroll
    for (int i = 0; i < kTiles * 4; ++i) {
      const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      const int query = row + column;
      const bool seen = first + i % 4 / 2 * 8 <= query && query < block.num_rows;
      float& weight = weights[i / 4][i % 4];
      float& worth = worths[i / 4][i % 4];
      weight =
          seen ? Exp2(__fmaf_rn(weight, params.scale_log2, -shared.stats[stage][0][column])) : 0.0f;
      worth = weight * (worth - shared.stats[stage][1][column]);
    }
    MultiplyAdd<kDim>(weights, shared.others[stage][1], values);
    MultiplyAdd<kDim>(worths, shared.others[stage][0], keys);
    __syncthreads();
  }
  StoreRows<kDim>(args, block, key_head, args.scale, true, keys);
  StoreRows<kDim>(args, block, key_head + args.num_kv_heads, 1.0f, false, values);
}

template <int kDim>
void Launch(const Params& params, Stream& stream) {
  const AttentionBackwardArgs& args = params.args;
  const cudaStream_t cuda_stream = CudaStreamOf(stream);
  constexpr size_t kBytes = sizeof(Shared<kDim>);
  const int64_t units = int64_t{args.num_rows} * args.num_heads;
  LaunchKernel(RoundKernel<kDim>, GridOf(CeilDiv(units, kThreads / 32)), dim3(kThreads), 0,
               cuda_stream, params);
  const int64_t tiles = CeilDiv(args.sequence_rows_max, kMine);
  const auto launch = [&](void (*kernel)(Params), int32_t heads) {
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(kBytes)));
    LaunchKernel(kernel, GridOf(tiles, heads, args.num_sequences), dim3(kThreads), kBytes,
                 cuda_stream, params);
  };
  launch(QueriesKernel<kDim>, args.num_heads);
  launch(KeysKernel<kDim>, args.num_kv_heads);
}

}  // namespace

void LaunchTensorCores(const Params& params, Stream& stream) {
  if (params.args.head_dim == 64) return Launch<64>(params, stream);
  Launch<128>(params, stream);
}

}  // namespace graft::attention_backward
