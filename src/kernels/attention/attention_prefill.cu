// Prefill: a thread block takes 4 warps' queries (rows times the query heads of one key head) and
// walks over their keys and values, which the warps share, in a ring of two tiles, or of one where
// the card's blocks have no room for two. A warp keeps the
// sums of the running split in registers and those of finished splits in memory of its own.
// Thread blocks stay and draw work, the longest of each sequence first.
#include <algorithm>

#include "kernels/attention/attention_work.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"

namespace graft::attention {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;

template <int kDim>
constexpr int kTileBytes = kTileTokens* kDim * 2;
template <int kDim>
constexpr int kColumns = kDim > 128 ? 2 : 4;  // query tiles of a warp
template <int kDim>
constexpr int kBlockQueries = kWarps * 8 * kColumns<kDim>;
template <int kDim>
constexpr int kQueryBytes = kBlockQueries<kDim>* kDim * 2;
// kTiles: of the ring.
template <int kDim, int kTiles>
constexpr int kSharedBytes = kQueryBytes<kDim> + kTiles * 2 * kTileBytes<kDim>;
template <int kDim>
constexpr int kBlocksMax = kDim > 128 ? 1 : 2;  // of a multiprocessor

struct QueryItem {
  int sequence;  // below 0: there are no more
  int kv_head;
  int row_begin;    // in q and out
  int num_queries;  // of the sequence and key head: rows times group
  int first_query;  // of the block, below num_queries
  int position;     // of the sequence's first row
};

template <int kDim>
__device__ __forceinline__ int NumBlocks(const Params& params, int sequence) {
  const int num_rows = params.args.row_begin[sequence + 1] - params.args.row_begin[sequence];
  if (num_rows < params.prefill_rows_min) return 0;
  return (num_rows * params.group + kBlockQueries<kDim> - 1) / kBlockQueries<kDim>;
}

// All lanes of a warp call it.
template <int kDim>
__device__ __forceinline__ QueryItem FindItem(const Params& params, int item) {
  const AttentionArgs& args = params.args;
  const FoundBlock at = FindBlock(args.num_sequences, item / args.layout.num_kv_heads,
                                  [&](int sequence) { return NumBlocks<kDim>(params, sequence); });
  QueryItem found = {};
  found.sequence = at.sequence;
  if (at.sequence < 0) return found;
  found.kv_head = item % args.layout.num_kv_heads;
  found.row_begin = args.row_begin[found.sequence];
  const int num_rows = args.row_begin[found.sequence + 1] - found.row_begin;
  found.num_queries = num_rows * params.group;
  found.first_query = (at.num_blocks - 1 - at.block) * kBlockQueries<kDim>;
  found.position = args.kv_tokens[found.sequence] - num_rows;
  return found;
}

// The block's queries to shared memory, rounded to T; zeros behind the last.
template <typename T, int kDim, bool kVectors>
__device__ __forceinline__ void StoreQueries(const Params& params, const QueryItem& item,
                                             unsigned char* target) {
  constexpr int kRuns = kDim / 4;  // of four dimensions
  constexpr int kStep = kThreads / kRuns;
  constexpr int kBatch = 8;  // loads at once
  const int head_dim = params.args.layout.head_dim;
  const int dim = static_cast<int>(threadIdx.x) % kRuns * 4;
  for (int first = static_cast<int>(threadIdx.x) / kRuns; first < kBlockQueries<kDim>;
       first += kBatch * kStep) {
    float values[kBatch][4];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int query = item.first_query + first + i * kStep;
      const int row = params.RowOf(query);
      const int head = item.kv_head * params.group + query - row * params.group;
      const bool present = query < item.num_queries && dim < head_dim;
      LoadRun<kVectors>(
          params.args.q + (item.row_begin + row) * params.args.q_stride + head * head_dim + dim,
          present ? 4 : 0, values[i]);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      *reinterpret_cast<uint2*>(target + ChunkOffset<kDim>(first + i * kStep, dim / 8) +
                                dim % 8 * 2) = make_uint2(PackPair<T>(values[i][0], values[i][1]),
                                                          PackPair<T>(values[i][2], values[i][3]));
    }
  }
}

// A warp's queries in shared memory.
template <int kDim, int kQueryTiles>
struct SharedQueries {
  uint32_t first;  // the warp's first query

  __device__ __forceinline__ void Load(int d, uint32_t (&query)[kQueryTiles][2]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const uint32_t row = first + (lane / 16 * 8 + lane % 8) * kDim * 2;
    const uint32_t swizzle = ((lane / 8 % 2) ^ (lane % 8)) * 16;
#pragma unroll
    for (int n = 0; n < kQueryTiles; n += 2) {
      uint32_t m[4];
      LoadMatrices(row + n * 8 * kDim * 2 + (swizzle ^ (d * 32)), m);
      query[n][0] = m[0], query[n][1] = m[1];
      query[n + 1][0] = m[2], query[n + 1][1] = m[3];
    }
  }
};

template <int kQueryTiles>
__device__ __forceinline__ Visible<kQueryTiles> VisibleKeys(const Params& params,
                                                            const QueryItem& item, int warp_query) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Visible<kQueryTiles> visible;
  visible.window = params.window;
#pragma unroll
  for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int query = warp_query + 8 * n + lane % 4 * 2 + j;
      visible.last[n][j] = query < item.num_queries ? item.position + params.RowOf(query) : -1;
    }
  }
  const int last_query = min(warp_query + 8 * kQueryTiles, item.num_queries) - 1;
  // Without any query the range is empty and no tile visible.
  visible.last_min = item.position + params.RowOf(warp_query);
  visible.last_max = last_query < warp_query ? -1 : item.position + params.RowOf(last_query);
  return visible;
}

// What finished splits come to, in the thread's local memory: registers hold the running split.
template <int kDim, int kQueryTiles>
class FinishedSplits {
 public:
  __device__ __forceinline__ FinishedSplits() {
    // The compiler must not see that indices are constants and move this to registers.
    asm volatile("mov.b64 %0, %1;" : "=l"(sums_) : "l"(&memory_[0]));
  }
  __device__ __forceinline__ void Restart() { is_empty_ = true; }

  // Adds a finished split.
  __device__ __forceinline__ void Add(SplitState<kDim, kQueryTiles>& split) {
    split.ReduceWeights();
    Fold(split);
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int d = 0; d < kDim / 16; ++d) {
        sums_[d * kQueryTiles + n] = make_float4(split.sum[d][n][0], split.sum[d][n][1],
                                                 split.sum[d][n][2], split.sum[d][n][3]);
      }
      scalars()[n] = make_float4(split.maximum[n][0], split.maximum[n][1], split.weight[n][0],
                                 split.weight[n][1]);
    }
    is_empty_ = false;
  }
  // Adds the last split, which becomes the whole.
  __device__ __forceinline__ void Finish(SplitState<kDim, kQueryTiles>& split) {
    split.ReduceWeights();
    Fold(split);
  }

 private:
  static constexpr int kSums = kDim / 16 * kQueryTiles;

  __device__ __forceinline__ float4* scalars() { return sums_ + kSums; }

  __device__ __forceinline__ void Fold(SplitState<kDim, kQueryTiles>& split) {
    if (is_empty_) return;
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
      float4 scalar = scalars()[n];
      const FoldFactors even(scalar.x, split.maximum[n][0]);
      const FoldFactors odd(scalar.y, split.maximum[n][1]);
      split.maximum[n][0] = scalar.x;
      split.maximum[n][1] = scalar.y;
      split.weight[n][0] = even.Fold(scalar.z, split.weight[n][0]);
      split.weight[n][1] = odd.Fold(scalar.w, split.weight[n][1]);
#pragma unroll
      for (int d = 0; d < kDim / 16; ++d) {
        const float4 sum = sums_[d * kQueryTiles + n];
        split.sum[d][n][0] = even.Fold(sum.x, split.sum[d][n][0]);
        split.sum[d][n][1] = odd.Fold(sum.y, split.sum[d][n][1]);
        split.sum[d][n][2] = even.Fold(sum.z, split.sum[d][n][2]);
        split.sum[d][n][3] = odd.Fold(sum.w, split.sum[d][n][3]);
      }
    }
  }

  float4 memory_[kSums + kQueryTiles];
  float4* sums_;
  bool is_empty_ = true;
};

// state: what all splits come to. warp_query: the warp's first, in the numbers of the item.
template <int kDim, int kQueryTiles>
__device__ __forceinline__ void WriteQueries(const Params& params, const QueryItem& item,
                                             int warp_query, SplitState<kDim, kQueryTiles>& state) {
  WriteResults(
      params,
      [&](int i) -> int64_t {
        const int query = warp_query + i;
        if (query >= item.num_queries) return -1;
        const int row = params.RowOf(query);
        const int head = item.kv_head * params.group + query - row * params.group;
        return (int64_t{item.row_begin + row} * params.args.num_heads + head) *
               params.args.layout.head_dim;
      },
      state);
}

// One item. All of `shared` is free. Returns the next item, in thread 0. kCaps: scores.
template <typename T, int kDim, int kTiles, bool kCaps>
__device__ __forceinline__ int RunItem(const Params& params, const QueryItem& item,
                                       unsigned char* shared,
                                       FinishedSplits<kDim, kColumns<kDim>>& finished) {
  constexpr int kQueryTiles = kColumns<kDim>;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_query = item.first_query + warp * 8 * kQueryTiles;
  const uint32_t shared_queries = SharedAddress(shared);
  const uint32_t ring = shared_queries + kQueryBytes<kDim>;
  const SharedQueries<kDim, kQueryTiles> queries{shared_queries +
                                                 warp * 8 * kQueryTiles * kDim * 2};
  const Visible<kQueryTiles> visible = VisibleKeys<kQueryTiles>(params, item, warp_query);
  const int block_queries = min(kBlockQueries<kDim>, item.num_queries - item.first_query);
  const int first_position = item.position + params.RowOf(item.first_query);
  const int last_position = item.position + params.RowOf(item.first_query + block_queries - 1);
  const int first_visible = FirstVisible(first_position, params.window);
  const int tile_end = last_position / kTileTokens + 1;

  TileCopier<T, kDim, kTileTokens / kWarps> copier(params.args, warp * (kTileTokens / kWarps));
  copier.StartHead(params.args.pages + params.args.page_begin[item.sequence], item.kv_head,
                   first_visible, last_position + 1);
  const auto load = [&](int tile) {
    const uint32_t target = ring + tile % kTiles * 2 * kTileBytes<kDim>;
    copier.CopyKeys(target);
    copier.CopyValues(target + kTileBytes<kDim>);
    CommitCopies();
    copier.FindPages((tile + 1) * kTileTokens);
  };

  SplitState<kDim, kQueryTiles> state;
  state.Reset();
  finished.Restart();
  int tile = first_visible / kTileTokens;
  copier.FindPages(tile * kTileTokens);
  load(tile);
  if (params.q_vectors) {
    StoreQueries<T, kDim, true>(params, item, shared);
  } else {
    StoreQueries<T, kDim, false>(params, item, shared);
  }
  const auto multiply = [&](int begin) {
    if (begin % kSplitTokens == 0 && begin > first_visible) {
      finished.Add(state);
      state.Reset();
    }
    const uint32_t keys = ring + tile % kTiles * 2 * kTileBytes<kDim>;
    float scores[kKeyTiles][kQueryTiles][4];
    uint32_t weights[kKeyTiles][kQueryTiles][2];
    MultiplyKeys<T, kDim>(keys, queries, scores);
    if constexpr (kCaps) CapScores(params.cap_log2, params.cap_exponent, scores);
    if (!visible.All(begin)) Mask(begin, visible, scores);
    WeighScores<T>(params.scale_log2, scores, state, weights);
    MultiplyValues<T>(keys + kTileBytes<kDim>, weights, state);
  };
  for (; tile < tile_end; ++tile) {
    WaitForCopies<0>();
    __syncthreads();
    if (kTiles > 1 && tile + 1 < tile_end) load(tile + 1);
    if (visible.Any(tile * kTileTokens)) multiply(tile * kTileTokens);
    if constexpr (kTiles == 1) {
      __syncthreads();
      if (tile + 1 < tile_end) load(tile + 1);
    }
  }
  // Drawn as late as may be, so that work stays balanced; writing hides the wait.
  int next = 0;
  if (threadIdx.x == 0) next = static_cast<int>(gridDim.x) + atomicAdd(&params.counters[0], 1);
  if (visible.last_max < 0) return next;
  finished.Finish(state);
  WriteQueries(params, item, warp_query, state);
  return next;
}

template <typename T, int kDim, int kTiles, bool kCaps>
__global__ void __launch_bounds__(kThreads, kBlocksMax<kDim>)
    PrefillKernel(const __grid_constant__ Params params) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ int32_t next_item;
  WaitForPrevious();
  LetNextStart();
  FinishedSplits<kDim, kColumns<kDim>> finished;
  QueryItem item = FindItem<kDim>(params, static_cast<int>(blockIdx.x));
  while (item.sequence >= 0) {
    const int next = RunItem<T, kDim, kTiles, kCaps>(params, item, shared, finished);
    if (threadIdx.x == 0) next_item = next;
    __syncthreads();
    item = FindItem<kDim>(params, next_item);
    __syncthreads();
  }
  // The last block leaves the counters as it found them.
  if (threadIdx.x == 0) {
    __threadfence();
    if (atomicAdd(&params.counters[1], 1) == static_cast<int>(gridDim.x) - 1) {
      atomicExch(&params.counters[0], 0);
      atomicExch(&params.counters[1], 0);
    }
  }
}

template <typename T, int kDim, int kTiles, bool kCaps>
void LaunchTiles(const Params& params, cudaStream_t stream) {
  const auto kernel = PrefillKernel<T, kDim, kTiles, kCaps>;
  const AttentionArgs& args = params.args;
  constexpr int kBytes = kSharedBytes<kDim, kTiles>;
  static const bool is_set = [&] {
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    return true;
  }();
  static_cast<void>(is_set);
  const int64_t num_blocks =
      CeilDiv(int64_t{args.rows_max} * params.group, kBlockQueries<kDim>) + args.num_sequences;
  const int resident =
      ResidentBlocks(BlocksPerMultiprocessor(CurrentTraits(), kBytes, kThreads, kBlocksMax<kDim>));
  const int64_t grid = std::min<int64_t>(num_blocks * args.layout.num_kv_heads, resident);
  LaunchKernel(kernel, static_cast<unsigned>(grid), kThreads, kBytes, stream, params);
  CUDA_CHECK(cudaGetLastError());
}

template <typename T, int kDim, bool kCaps>
void Launch(const Params& params, cudaStream_t stream) {
  if constexpr (kDim > 128) {
    if (CurrentTraits().shared_bytes_max < kSharedBytes<kDim, 2> + 1024) {
      return LaunchTiles<T, kDim, 1, kCaps>(params, stream);
    }
  }
  LaunchTiles<T, kDim, 2, kCaps>(params, stream);
}

template <typename T>
void LaunchPrefillOf(const Params& params, cudaStream_t stream) {
  const int head_dim = params.args.layout.head_dim;
  if (params.args.score_cap > 0.0f) {
    return head_dim <= 128 ? Launch<T, 128, true>(params, stream)
                           : Launch<T, 256, true>(params, stream);
  }
  if (head_dim <= 64) return Launch<T, 64, false>(params, stream);
  if (head_dim <= 128) return Launch<T, 128, false>(params, stream);
  return Launch<T, 256, false>(params, stream);
}

}  // namespace

void LaunchPrefill(const Params& params, cudaStream_t stream) {
  params.args.layout.dtype == DType::kBF16 ? LaunchPrefillOf<Bfloat16>(params, stream)
                                           : LaunchPrefillOf<Float16>(params, stream);
}

}  // namespace graft::attention
