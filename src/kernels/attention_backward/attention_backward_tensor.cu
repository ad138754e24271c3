// bf16 on Hopper's tensor cores, after FlashAttention-2 (arXiv 2307.08691), without its atomic
// sums: one kernel takes 64 queries of a head and goes over the keys before them, another one 64
// keys and goes over the queries behind them in every head of the group. Both compute the scores
// again. Each sum has one thread and one order. A block is a warpgroup. While it weighs what it
// multiplied, the other block of its multiprocessor multiplies.
#include "kernels/attention_backward/attention_backward_tiles.cuh"
#include "kernels/rope/rotate_pair.cuh"

namespace graft::attention_backward {
namespace {

constexpr int kThreads = 128;

// Rows [first, first + kRows) of `num_rows`; zeros behind them.
template <int kDim>
__device__ __forceinline__ void BringRows(const Rows& rows, int first, int num_rows, uint32_t to) {
  constexpr int kPieces = kDim / 8;
  const int piece = static_cast<int>(threadIdx.x) % kPieces;
#pragma unroll
  for (int i = 0; i < kRows * kPieces / kThreads; ++i) {
    const int local = static_cast<int>(threadIdx.x) / kPieces + i * (kThreads / kPieces);
    const int row = first + local;
    const bool present = row < num_rows;
    CopyAsync(to + Tile<kDim>::Offset(local, piece),
              rows.data + (present ? row : 0) * rows.stride + piece * 8, present);
  }
}

template <int kDim>
__device__ __forceinline__ void BringTile(const Seen& seen, int tile, uint32_t to) {
  seen.WithTile(tile, [&](const Rows& rows, int first, int num_rows) {
    BringRows<kDim>(rows, first, num_rows, to);
  });
}

#if defined(GRAFT_HOPPER)

constexpr int kSums = kRows / 2;  // of a thread, of 64 rows by 64

// This thread's rows of a block are the one below and the one 8 further on.
__device__ __forceinline__ int FirstRow(const Block& block) {
  return block.first + static_cast<int>(threadIdx.x) / 32 * 16 +
         static_cast<int>(threadIdx.x) % 32 / 4;
}
// The column of a product's sum i; its row is FirstRow + i % 4 / 2 * 8.
__device__ __forceinline__ int ColumnOf(int i) {
  return i / 4 * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2;
}

// Writes a thread's rows of a head: `sums` by `scale`, turned back if asked for.
template <int kDim>
__device__ __forceinline__ void StoreRows(const AttentionBackwardArgs& args, const Block& block,
                                          int head, float scale, bool turns,
                                          const float (&sums)[kDim / 2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int local = FirstRow(block) + half * 8;
    if (local >= block.num_rows) continue;
    const int row = block.begin + local;
    const float row_scale = scale * QueryScaleOf(args, row, head);
    const int64_t angles = turns ? int64_t{args.positions[row]} * (kDim / 2) : 0;
    Bfloat16* out = static_cast<Bfloat16*>(args.d_qkv) + row * args.qkv_stride +
                    int64_t{head} * kDim + lane % 4 * 2;
#pragma unroll
    for (int tile = 0; tile < kDim / 16; ++tile) {
      float low[2], high[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        low[e] = sums[4 * tile + half * 2 + e] * row_scale;
        high[e] = sums[4 * (tile + kDim / 16) + half * 2 + e] * row_scale;
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

// Writes a thread's positions of a prefix's keys or values: `sums` by `scale`.
template <int kDim>
__device__ __forceinline__ void StorePrefix(const AttentionBackwardArgs& args, const Block& block,
                                            int head, float scale, const float (&sums)[kDim / 2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int token = FirstRow(block) + half * 8;
    if (token >= block.prefix.num_tokens) continue;
    float* out = block.prefix.d_keys_values +
                 (int64_t{2} * args.num_kv_heads * token + head) * kDim + threadIdx.x % 4 * 2;
#pragma unroll
    for (int tile = 0; tile < kDim / 8; ++tile) {
      *reinterpret_cast<float2*>(out + tile * 8) = {sums[4 * tile + half * 2] * scale,
                                                    sums[4 * tile + half * 2 + 1] * scale};
    }
  }
}

template <int kDim, bool kPrefix>
__device__ __forceinline__ void StoreKeys(const AttentionBackwardArgs& args, const Block& block,
                                          int kv_head, const float (&keys)[kDim / 2],
                                          const float (&values)[kDim / 2]) {
  if constexpr (kPrefix) {
    StorePrefix<kDim>(args, block, kv_head, args.scale, keys);
    StorePrefix<kDim>(args, block, kv_head + args.num_kv_heads, 1.0f, values);
  } else {
    const int key_head = args.num_heads + kv_head;
    StoreRows<kDim>(args, block, key_head, args.scale, true, keys);
    StoreRows<kDim>(args, block, key_head + args.num_kv_heads, 1.0f, false, values);
  }
}

// The logarithms of the sums of this thread's two rows. The last tile has the diagonal.
template <int kDim>
__device__ __forceinline__ void SumScores(const Params& params, const Block& block,
                                          const Seen& keys, int num_tiles,
                                          const Shared<kDim>& shared, float (&log_sums)[2]) {
  float maxima[2] = {-INFINITY, -INFINITY}, sums[2] = {};
  for (int tile = 0; tile < num_tiles; ++tile) {
    if (tile + 1 < num_tiles) BringTile<kDim>(keys, tile + 1, shared.Others((tile + 1) % 2, 0));
    CommitCopies();
    AwaitRows();
    float scores[kSums];
    WgmmaFence();
    Multiply<kDim>(shared.Mine(0), shared.Others(tile % 2, 0), scores);
    WgmmaCommit();
    WgmmaWait<0>();
    WgmmaKeep(scores);
    const bool masks = keys.Masks(tile, num_tiles);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int num_seen = keys.NumSeen(tile, FirstRow(block) + half * 8);
      float largest = maxima[half];
#pragma unroll
      for (int i = 0; i < kSums / 2; ++i) {
        const int at = i / 2 * 4 + half * 2 + i % 2;
        scores[at] *= params.scale_log2;
        if (masks && ColumnOf(at) >= num_seen) scores[at] = -INFINITY;
        largest = fmaxf(largest, scores[at]);
      }
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
      sums[half] *= Exp2(maxima[half] - largest);  // a row sees a key of every tile
#pragma unroll
      for (int i = 0; i < kSums / 2; ++i) {
        sums[half] += Exp2(scores[i / 2 * 4 + half * 2 + i % 2] - largest);
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

// Adds a tile of keys: the scores and the weights' gradients give the scores' gradients.
template <int kDim>
__device__ __forceinline__ void AddKeys(const Params& params, const Shared<kDim>& shared, int tile,
                                        bool masks, const int (&num_seen)[2],
                                        const float (&log_sums)[2], const float (&means)[2],
                                        float (&sums)[kDim / 2]) {
  const uint32_t keys = shared.Others(tile % 2, 0);
  float scores[kSums], worths[kSums];
  WgmmaFence();
  Multiply<kDim>(shared.Mine(0), keys, scores);
  Multiply<kDim>(shared.Mine(1), shared.Others(tile % 2, 1), worths);
  WgmmaCommit();
  WgmmaWait<0>();
  WgmmaKeep(scores);
  WgmmaKeep(worths);
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int half = i % 4 / 2;
    const float weight = Exp2(__fmaf_rn(scores[i], params.scale_log2, -log_sums[half]));
    scores[i] = weight * (worths[i] - means[half]);
    if (masks && ColumnOf(i) >= num_seen[half]) scores[i] = 0.0f;
  }
  uint32_t packed[4][4];
  Pack(scores, packed);
  WgmmaFence();
  MultiplyAdd<kDim>(packed, keys, sums);
  WgmmaCommit();
  WgmmaWait<0>();
  WgmmaKeep(sums);
}

template <int kDim>
__device__ __forceinline__ void RunQueries(const Params& params, const Shared<kDim>& shared) {
  const AttentionBackwardArgs& args = params.args;
  const Block block(args, true);
  if (block.first >= block.num_rows) return;
  const auto head = static_cast<int>(blockIdx.x);
  const Seen keys(args, block, head / params.group);
  const Seen values(args, block, head / params.group + args.num_kv_heads);
  const int num_tiles = keys.prefix_tiles + block.first / kRows + 1;
  BringRows<kDim>(HeadRows(args, block, head), block.first, block.num_rows, shared.Mine(0));
  BringRows<kDim>(GradientRows(params, block, head), block.first, block.num_rows, shared.Mine(1));
  BringTile<kDim>(keys, 0, shared.Others(0, 0));
  CommitCopies();
  float log_sums[2], means[2];
  SumScores<kDim>(params, block, keys, num_tiles, shared, log_sums);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int local = FirstRow(block) + half * 8;
    const int64_t stat = int64_t{head} * args.num_rows + block.begin + local;
    means[half] = local < block.num_rows ? params.means[stat] : 0.0f;
    if (threadIdx.x % 4 == 0 && local < block.num_rows) params.log_sums[stat] = log_sums[half];
  }
  const auto bring = [&](int tile) {
    BringTile<kDim>(keys, tile, shared.Others(tile % 2, 0));
    BringTile<kDim>(values, tile, shared.Others(tile % 2, 1));
  };
  bring(0);
  CommitCopies();
  float sums[kDim / 2] = {};
  for (int tile = 0; tile < num_tiles; ++tile) {
    if (tile + 1 < num_tiles) bring(tile + 1);
    CommitCopies();
    AwaitRows();
    const int num_seen[2] = {keys.NumSeen(tile, FirstRow(block)),
                             keys.NumSeen(tile, FirstRow(block) + 8)};
    AddKeys<kDim>(params, shared, tile, keys.Masks(tile, num_tiles), num_seen, log_sums, means,
                  sums);
    __syncthreads();
  }
  StoreRows<kDim>(args, block, head, args.scale, true, sums);
}

// Adds a tile of queries, from row `row` of the sequence on, to a block of keys. All queries see a
// prefix's keys.
template <int kDim, bool kPrefix>
__device__ __forceinline__ void AddQueries(const Params& params, const Block& block,
                                           const Shared<kDim>& shared, int stage, int row,
                                           bool masks, float (&keys)[kDim / 2],
                                           float (&values)[kDim / 2]) {
  const float* const log_sums = shared.Stats(stage, 0);
  const float* const means = shared.Stats(stage, 1);
  float weights[kSums], worths[kSums];
  WgmmaFence();
  Multiply<kDim>(shared.Mine(0), shared.Others(stage, 0), weights);
  Multiply<kDim>(shared.Mine(1), shared.Others(stage, 1), worths);
  WgmmaCommit();
  WgmmaWait<0>();
  WgmmaKeep(weights);
  WgmmaKeep(worths);
  const int key = FirstRow(block) - row;
  const int last = block.num_rows - row;
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int query = ColumnOf(i);
    weights[i] = Exp2(__fmaf_rn(weights[i], params.scale_log2, -log_sums[query]));
    const bool precedes = !kPrefix && key + i % 4 / 2 * 8 > query;
    if (masks && (precedes || query >= last)) weights[i] = 0.0f;
    worths[i] = weights[i] * (worths[i] - means[query]);
  }
  uint32_t packed_weights[4][4], packed_worths[4][4];
  Pack(weights, packed_weights);
  Pack(worths, packed_worths);
  WgmmaFence();
  MultiplyAdd<kDim>(packed_weights, shared.Others(stage, 1), values);
  MultiplyAdd<kDim>(packed_worths, shared.Others(stage, 0), keys);
  WgmmaCommit();
  WgmmaWait<0>();
  WgmmaKeep(values);
  WgmmaKeep(keys);
}

// kPrefix: the keys are the prefix's, not the sequence's own.
template <int kDim, bool kPrefix>
__device__ __forceinline__ void RunKeys(const Params& params, const Shared<kDim>& shared) {
  const AttentionBackwardArgs& args = params.args;
  const Block block(args, false);
  const int num_keys = kPrefix ? block.prefix.num_tokens : block.num_rows;
  if (block.first >= num_keys) return;
  const auto kv_head = static_cast<int>(blockIdx.x);
  const int first_row = kPrefix ? 0 : block.first;                         // of the queries
  const int num_tiles = (block.num_rows - first_row + kRows - 1) / kRows;  // of a head
  const int num_steps = num_tiles * params.group;
  const auto bring = [&](int step) {
    const int head = kv_head * params.group + step / num_tiles;
    const int row = first_row + step % num_tiles * kRows;
    const int stage = step % 2;
    BringRows<kDim>(HeadRows(args, block, head), row, block.num_rows, shared.Others(stage, 0));
    BringRows<kDim>(GradientRows(params, block, head), row, block.num_rows,
                    shared.Others(stage, 1));
    const int which = static_cast<int>(threadIdx.x) / kRows;
    const int local = row + static_cast<int>(threadIdx.x) % kRows;
    const float* stats = which == 0 ? params.log_sums : params.means;
    const bool present = local < block.num_rows;
    CopyWordAsync(SharedAddress(shared.Stats(stage, which) + threadIdx.x % kRows),
                  stats + int64_t{head} * args.num_rows + block.begin + (present ? local : 0),
                  present);
  };
#pragma unroll
  for (int which = 0; which < 2; ++which) {  // keys, values
    const int head = kv_head + which * args.num_kv_heads;
    BringRows<kDim>(
        kPrefix ? PrefixRows(args, block, head) : HeadRows(args, block, args.num_heads + head),
        block.first, num_keys, shared.Mine(which));
  }
  if (num_steps > 0) bring(0);
  CommitCopies();
  float keys[kDim / 2] = {}, values[kDim / 2] = {};
  for (int step = 0; step < num_steps; ++step) {
    if (step + 1 < num_steps) bring(step + 1);
    CommitCopies();
    AwaitRows();
    const int tile = step % num_tiles;
    const bool masks = (!kPrefix && tile == 0) || tile + 1 == num_tiles;
    AddQueries<kDim, kPrefix>(params, block, shared, step % 2, first_row + tile * kRows, masks,
                              keys, values);
    __syncthreads();
  }
  StoreKeys<kDim, kPrefix>(args, block, kv_head, keys, values);
}

#endif  // GRAFT_HOPPER

// blockIdx: head, 64 queries, sequence.
template <int kDim>
__global__ void __launch_bounds__(kThreads, 2)
    QueriesKernel(const __grid_constant__ Params params) {
#if defined(GRAFT_HOPPER)
  extern __shared__ __align__(1024) unsigned char bytes[];
  LetNextStart();
  WaitForPrevious();
  RunQueries<kDim>(params, Shared<kDim>(bytes));
#endif
}

// blockIdx: key head, 64 keys of the sequence's rows, or of its prefix; sequence.
template <int kDim, bool kPrefix>
__global__ void __launch_bounds__(kThreads, 2) KeysKernel(const __grid_constant__ Params params) {
#if defined(GRAFT_HOPPER)
  extern __shared__ __align__(1024) unsigned char bytes[];
  LetNextStart();
  WaitForPrevious();
  RunKeys<kDim, kPrefix>(params, Shared<kDim>(bytes));
#endif
}

template <int kDimOf>
struct WholeHead {
  static constexpr int kDim = kDimOf;
};

template <int kDim>
void Launch(const Params& params, Stream& stream) {
  const AttentionBackwardArgs& args = params.args;
  const cudaStream_t cuda_stream = CudaStreamOf(stream);
  constexpr int kBytes = Shared<kDim>::kBytes;
  LaunchMeans<WholeHead<kDim>, false>(params, stream);
  const auto launch = [&](void (*kernel)(Params), int64_t rows_max, int32_t heads) {
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    LaunchKernel(kernel, GridOf(heads, CeilDiv(rows_max, kRows), args.num_sequences),
                 dim3(kThreads), kBytes, cuda_stream, params);
  };
  launch(QueriesKernel<kDim>, args.sequence_rows_max, args.num_heads);
  launch(KeysKernel<kDim, false>, args.sequence_rows_max, args.num_kv_heads);
  if (args.prefixes == nullptr) return;
  launch(KeysKernel<kDim, true>, args.prefix_tokens_max, args.num_kv_heads);
}

}  // namespace

void LaunchTensorCores(const Params& params, Stream& stream) {
  if (params.args.head_dim == 64) return Launch<64>(params, stream);
  Launch<128>(params, stream);
}

}  // namespace graft::attention_backward
