// Decode: sequences of one row. A warp takes one split of a sequence, one key head and up to 16 of
// its query heads, and streams keys and values through a ring of its own in shared memory, with
// loads always two half tiles ahead, across the end of one split into the next. Warps draw their
// work, the longest splits first, and none waits for another. Bound by memory: what is computed
// fills an eighth of the tensor cores' time. Where there are fewer warps than multiprocessors, by
// how soon loads answer: then a warp has a block's shared memory to itself, and most of its split
// on its way at once.
#include <algorithm>

#include "kernels/attention/attention_work.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"

namespace graft::attention {
namespace {

template <int kDim>
constexpr int kWarpsMax = kDim > 128 ? 2 : 4;
template <int kDim>
constexpr int kBlocksPerMultiprocessor = kDim > 64 ? 1 : 2;

// A kernel. kWarps: of a block. kDraws: there may be more items than warps. kCaps: scores.
template <int kDimOf, int kWarpsOf, bool kDrawsOf, bool kCapsOf>
struct DecodeShape {
  static constexpr int kDim = kDimOf;
  static constexpr int kWarps = kWarpsOf;
  static constexpr bool kDraws = kDrawsOf;
  static constexpr bool kCaps = kCapsOf;
  // Of a warp's ring: the keys or the values of a tile, in turn. An odd number, so that values
  // follow where keys were.
  static constexpr int kSlots = (3 * kWarpsMax<kDim> / kWarps - 1) | 1;
  static constexpr int kSlotBytes = kTileTokens * kDim * 2;
  static constexpr int kRingBytes = kSlots * kSlotBytes;
};

// One split for up to 8 kQueryTiles query heads.
struct SplitItem {
  bool exists;
  AttentionSplit split;
  int kv_head;
  int head_begin;  // among the key head's query heads
};

// The launch's items: of every split, in the order in which they are drawn, key heads and parts of
// their query heads.
template <int kQueryTiles>
class ItemList {
 public:
  __device__ __forceinline__ explicit ItemList(const Params& params)
      : params_(params), num_parts_((params.group + 8 * kQueryTiles - 1) / (8 * kQueryTiles)) {}

  __device__ __forceinline__ int count() const {
    return *params_.args.num_splits * ItemsPerSplit();
  }
  // Of `count`. The split is read before it is known whether the item exists.
  __device__ __forceinline__ SplitItem At(int item, int count) const {
    const int capacity = params_.args.num_sequences * params_.splits_max;
    const int part = item % ItemsPerSplit();
    return {item < count, params_.args.splits[min(item / ItemsPerSplit(), capacity - 1)],
            part / num_parts_, part % num_parts_ * 8 * kQueryTiles};
  }

 private:
  __device__ __forceinline__ int ItemsPerSplit() const {
    return params_.args.layout.num_kv_heads * num_parts_;
  }

  const Params& params_;
  const int num_parts_;
};

// Fills the ring's slots in the order in which they are used: keys, values, keys, ... A warp's
// first item is its own, the others, where there can be more than warps, are drawn.
template <typename T, typename Shape, int kQueryTiles>
class RingLoader {
  static constexpr bool kDraws = Shape::kDraws;

 public:
  // counter: items drawn by all warps, zero before and after the launch.
  __device__ __forceinline__ RingLoader(const Params& params, const ItemList<kQueryTiles>& list,
                                        int item, int num_warps, int32_t* counter)
      : params_(params),
        list_(list),
        num_warps_(num_warps),
        counter_(counter),
        copier_(params.args, 0) {
    num_items_ = list_.count();
    StartItem(list_.At(item, num_items_));
  }

  // Whether the next tile may be copied before the kernel in front has ended: it is without the
  // row's own position, and nothing is drawn.
  __device__ __forceinline__ bool NextTileIsOld() const {
    return loads_ && tile_ < newest_tile_ && (!kDraws || tile_ + 1 < tile_end_);
  }

  // Start the next tile's copies, if there is one: keys first, then values.
  __device__ __forceinline__ void LoadKeys(uint32_t slot) {
    if (loads_) {
      copier_.CopyKeys(slot);
      if (kDraws && tile_ + 1 == tile_end_) Draw();
    }
    CommitCopies();
  }
  __device__ __forceinline__ void LoadValues(uint32_t slot) {
    if (loads_) {
      copier_.CopyValues(slot);
      if (++tile_ != tile_end_) {
        copier_.FindPages(tile_ * kTileTokens);
      } else if constexpr (kDraws) {
        StartItem(list_.At(Drawn(), num_items_));
      } else {
        loads_ = false;
      }
    }
    CommitCopies();
  }

  // The next item to be multiplied: they come here in the order of the ring.
  __device__ __forceinline__ SplitItem TakeItem() {
    const SplitItem item = next_;
    next_ = second_next_;
    --num_started_;
    return item;
  }

 private:
  // The answer is wanted half a tile later.
  __device__ __forceinline__ void Draw() {
    if (num_items_ > num_warps_ && threadIdx.x % 32 == 0) drawn_ = atomicAdd(counter_, 1);
  }
  __device__ __forceinline__ int Drawn() {
    if (num_items_ <= num_warps_) return num_items_;
    // All warps draw until there is nothing left, together as often as there are items: so whoever
    // draws last is known, and sets the counter back.
    if (threadIdx.x % 32 == 0 && drawn_ == num_items_ - 1) *counter_ = 0;
    return num_warps_ + __shfl_sync(0xffffffffu, drawn_, 0);
  }

  __device__ __forceinline__ void StartItem(const SplitItem& item) {
    loads_ = item.exists;
    if (num_started_++ == 0) {
      next_ = item;
    } else {
      second_next_ = item;
    }
    if (!loads_) return;
    const AttentionSplit& split = item.split;
    tile_ = split.tile_begin;
    tile_end_ = split.tile_end;
    newest_tile_ = split.position / kTileTokens;
    copier_.StartHead(params_.args.pages + split.page_begin, item.kv_head,
                      FirstVisible(split.position, params_.window), split.position + 1);
    copier_.FindPages(tile_ * kTileTokens);
  }

  const Params& params_;
  const ItemList<kQueryTiles>& list_;
  const int num_warps_;
  int num_items_;
  int32_t* const counter_;
  bool loads_ = false;  // there is a tile left to load
  int drawn_ = 0;
  // Started and not yet taken: the ring has room for no third.
  SplitItem next_ = {};
  SplitItem second_next_ = {};
  int num_started_ = 0;
  int tile_ = 0;
  int tile_end_ = 0;
  int newest_tile_ = 0;
  TileCopier<T, Shape::kDim, kTileTokens> copier_;
};

// The row's queries, one head a column, in registers as the tensor cores take them.
template <typename T, int kDim, int kQueryTiles>
struct RegisterQueries {
  uint32_t pairs[kDim / 16][kQueryTiles][2];

  __device__ __forceinline__ RegisterQueries(const Params& params, const SplitItem& item) {
    const AttentionArgs& args = params.args;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int head_dim = args.layout.head_dim;
    const float* row = args.q + item.split.row * args.q_stride;
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
      const int head = item.head_begin + 8 * n + lane / 4;
      const float* q = row + (item.kv_head * params.group + head) * head_dim;
#pragma unroll
      for (int d = 0; d < kDim / 8; ++d) {
        const int dim = d * 8 + lane % 4 * 2;
        const bool is_inside = head < params.group && dim < head_dim;
        pairs[d / 2][n][d % 2] =
            is_inside ? PackPair<T>(q[dim], q[dim + 1]) : PackPair<T>(0.0f, 0.0f);
      }
    }
  }
  __device__ __forceinline__ void Load(int d, uint32_t (&query)[kQueryTiles][2]) const {
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n)
      query[n][0] = pairs[d][n][0], query[n][1] = pairs[d][n][1];
  }
};

// Of a split that is not its sequence's only one: to be merged later.
template <int kDim, int kQueryTiles>
__device__ __forceinline__ void WritePartial(const Params& params, const SplitItem& item,
                                             const SplitState<kDim, kQueryTiles>& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int head_dim = params.args.layout.head_dim;
  const int64_t first = (int64_t{item.split.sequence} * params.splits_max + item.split.index) *
                            params.args.num_heads +
                        item.kv_head * params.group + item.head_begin;
  const int num_heads = params.group - item.head_begin;
  WriteFloats(
      params.sums, head_dim,
      [&](int i) -> int64_t { return i < num_heads ? (first + i) * head_dim : -1; }, state);
  if (lane >= 4) return;
#pragma unroll
  for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = 8 * n + 2 * lane + j;
      if (i < num_heads) params.maxima[first + i] = {state.maximum[n][j], state.weight[n][j]};
    }
  }
}

template <int kDim, int kQueryTiles>
__device__ __forceinline__ void FinishItem(const Params& params, const SplitItem& item,
                                           SplitState<kDim, kQueryTiles>& state) {
  state.ReduceWeights();
  if (item.split.num_splits > 1) return WritePartial(params, item, state);
  const AttentionArgs& args = params.args;
  const int head_dim = args.layout.head_dim;
  const int num_heads = params.group - item.head_begin;
  const int64_t first =
      int64_t{item.split.row} * args.num_heads + item.kv_head * params.group + item.head_begin;
  WriteResults(
      params, [&](int i) -> int64_t { return i < num_heads ? (first + i) * head_dim : -1; }, state);
}

template <typename T, typename Shape, int kQueryTiles>
__global__ void __launch_bounds__(Shape::kWarps * 32)
    DecodeKernel(const __grid_constant__ Params params) {
  constexpr int kDim = Shape::kDim;
  extern __shared__ __align__(1024) unsigned char shared[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int num_warps = static_cast<int>(gridDim.x) * Shape::kWarps;
  const ItemList<kQueryTiles> list(params);
  const uint32_t ring = SharedAddress(shared) + warp * Shape::kRingBytes;
  RingLoader<T, Shape, kQueryTiles> loader(
      params, list, warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x), num_warps,
      &params.counters[2]);
  const auto after = [&](uint32_t slot) {
    const uint32_t next = slot + Shape::kSlotBytes;
    return next == ring + Shape::kRingBytes ? ring : next;
  };
  // Of this step the pool gets one position of a sequence: all before it may be read while the
  // kernel that writes it still runs, and that kernel's time would be memory's idle time.
  bool has_waited = params.wait_late;
  const auto wait_for_newest = [&] {
    if (has_waited || loader.NextTileIsOld()) return;
    WaitForPrevious();
    has_waited = true;
  };
  uint32_t slot = ring;
#pragma unroll 1
  for (int i = 1; i < Shape::kSlots; i += 2, slot += 2 * Shape::kSlotBytes) {
    wait_for_newest();
    loader.LoadKeys(slot);
    loader.LoadValues(slot + Shape::kSlotBytes);
  }
  wait_for_newest();
  loader.LoadKeys(slot);
  if (!has_waited) WaitForPrevious();
  if (params.splits_max > 1 || !params.args.next_starts_late) LetNextStart();
  slot = ring;
  // Until the slot's copy, the first begun of the ring's, can be seen by the whole warp.
  const auto wait = [] {
    WaitForCopies<Shape::kSlots - 1>();
    __syncwarp();
  };
  for (SplitItem item = loader.TakeItem(); item.exists; item = loader.TakeItem()) {
    const int position = item.split.position;
    const RegisterQueries<T, kDim, kQueryTiles> queries(params, item);
    Visible<kQueryTiles> visible;
    visible.window = params.window;
    visible.last_min = visible.last_max = position;
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) visible.last[n][0] = visible.last[n][1] = position;
    SplitState<kDim, kQueryTiles> state;
    state.Reset();
    for (int tile = item.split.tile_begin; tile < item.split.tile_end; ++tile) {
      float scores[kKeyTiles][kQueryTiles][4];
      uint32_t weights[kKeyTiles][kQueryTiles][2];
      wait();
      MultiplyKeys<T, kDim>(slot, queries, scores);
      __syncwarp();
      loader.LoadValues(slot);
      slot = after(slot);
      if constexpr (Shape::kCaps) CapScores(params.cap_log2, params.cap_exponent, scores);
      if (!visible.All(tile * kTileTokens)) Mask(tile * kTileTokens, visible, scores);
      WeighScores<T>(params.scale_log2, scores, state, weights);
      wait();
      MultiplyValues<T>(slot, weights, state);
      __syncwarp();
      loader.LoadKeys(slot);
      slot = after(slot);
    }
    FinishItem(params, item, state);
    if constexpr (!Shape::kDraws) break;
  }
  WaitForCopies<0>();
  if (params.wait_late) WaitForPrevious();
}

// Folds the splits of decode rows that have several, a warp per query head.
constexpr int kMergeWarps = 4;
constexpr int kMergeAhead = 8;  // splits read at once

// Splits that the row of a sequence sees; 0 where the sequence is not one row.
__device__ __forceinline__ int NumSplits(const Params& params, int sequence) {
  const AttentionArgs& args = params.args;
  if (args.row_begin[sequence + 1] - args.row_begin[sequence] != 1) return 0;
  const int position = args.kv_tokens[sequence] - 1;
  return position / kSplitTokens - FirstVisible(position, params.window) / kSplitTokens + 1;
}

__global__ void __launch_bounds__(kMergeWarps * 32)
    MergeKernel(const __grid_constant__ Params params) {
  // The next product's blocks begin as decode's leave, the first of them 10 us before the last.
  if (!params.args.next_starts_late) LetNextStart();
  const AttentionArgs& args = params.args;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int unit = static_cast<int>(blockIdx.x) * kMergeWarps + static_cast<int>(threadIdx.x) / 32;
  const int sequence = unit / args.num_heads;
  const int head = unit % args.num_heads;
  // The kernel before this one is decode, which waited for all others: what it does not write can
  // be read at once.
  const int num_splits = sequence < args.num_sequences ? NumSplits(params, sequence) : 0;
  WaitForPrevious();
  if (num_splits <= 1) return;
  const int head_dim = args.layout.head_dim;
  const int first_split = FirstVisible(args.kv_tokens[sequence] - 1, params.window) / kSplitTokens;
  const int64_t first =
      (int64_t{sequence} * params.splits_max + first_split) * args.num_heads + head;
  const int64_t out_begin = (int64_t{args.row_begin[sequence]} * args.num_heads + head) * head_dim;

  for (int dim = lane * 4; dim < head_dim; dim += 128) {
    float maximum = -INFINITY;
    float weight = 0.0f;
    float sum[4] = {};
    for (int split = 0; split < num_splits; split += kMergeAhead) {
      float4 sums[kMergeAhead];
      float2 maxima[kMergeAhead];
#pragma unroll
      for (int i = 0; i < kMergeAhead; ++i) {
        const int64_t idx = first + int64_t{min(split + i, num_splits - 1)} * args.num_heads;
        maxima[i] = params.maxima[idx];
        sums[i] = *reinterpret_cast<const float4*>(params.sums + idx * head_dim + dim);
      }
#pragma unroll
      for (int i = 0; i < kMergeAhead; ++i) {
        if (split + i >= num_splits) break;
        const FoldFactors factors(maximum, maxima[i].x);
        weight = factors.Fold(weight, maxima[i].y);
        sum[0] = factors.Fold(sum[0], sums[i].x);
        sum[1] = factors.Fold(sum[1], sums[i].y);
        sum[2] = factors.Fold(sum[2], sums[i].z);
        sum[3] = factors.Fold(sum[3], sums[i].w);
      }
    }
    const float inverse = __frcp_rn(weight);
    for (float& value : sum) value = Normalised(value, inverse);
    DispatchOut(args, [&](auto* out) {
      for (int i = 0; i < 4; ++i) {
        using Out = std::remove_pointer_t<decltype(out)>;
        out[out_begin + dim + i] = NarrowElement<Out>(sum[i]);
      }
    });
  }
}

template <typename T, typename Shape, int kQueryTiles>
void LaunchOf(const Params& params, int64_t num_blocks, cudaStream_t stream) {
  const auto kernel = DecodeKernel<T, Shape, kQueryTiles>;
  constexpr int kSharedBytes = Shape::kWarps * Shape::kRingBytes;
  static const bool is_set = [&] {
    CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
    return true;
  }();
  static_cast<void>(is_set);
  LaunchKernel(kernel, static_cast<unsigned>(num_blocks), Shape::kWarps * 32, kSharedBytes, stream,
               params);
  CUDA_CHECK(cudaGetLastError());
}

template <typename T, int kDim, int kQueryTiles, bool kCaps>
void Launch(const Params& params, cudaStream_t stream) {
  constexpr int kWarps = kWarpsMax<kDim>;
  const AttentionArgs& args = params.args;
  const int64_t items_max = int64_t{args.num_sequences} * params.splits_max *
                            args.layout.num_kv_heads * CeilDiv(params.group, 8 * kQueryTiles);
  const int64_t num_blocks =
      std::min<int64_t>(items_max, ResidentBlocks(kBlocksPerMultiprocessor<kDim>));
  // Kernels of their own where every warp has one item at most: drawing is code that a lone
  // sequence's step would have to fetch for nothing.
  if (items_max == num_blocks) {
    LaunchOf<T, DecodeShape<kDim, 1, false, kCaps>, kQueryTiles>(params, num_blocks, stream);
  } else if (items_max <= num_blocks * kWarps) {
    LaunchOf<T, DecodeShape<kDim, kWarps, false, kCaps>, kQueryTiles>(params, num_blocks, stream);
  } else {
    LaunchOf<T, DecodeShape<kDim, kWarps, true, kCaps>, kQueryTiles>(params, num_blocks, stream);
  }
}

template <typename T, int kDim>
void LaunchDim(const Params& params, cudaStream_t stream) {
  if constexpr (kDim <= 128) {  // registers hold no more
    if (params.group > 8) return Launch<T, kDim, 2, false>(params, stream);
  }
  Launch<T, kDim, 1, false>(params, stream);
}

template <typename T>
void LaunchDType(const Params& params, cudaStream_t stream) {
  const int head_dim = params.args.layout.head_dim;
  if (params.args.score_cap > 0.0f) {  // fewer kernels: the bits are the same in all
    return head_dim <= 128 ? Launch<T, 128, 1, true>(params, stream)
                           : Launch<T, 256, 1, true>(params, stream);
  }
  if (head_dim <= 64) return LaunchDim<T, 64>(params, stream);
  if (head_dim <= 128) return LaunchDim<T, 128>(params, stream);
  return LaunchDim<T, 256>(params, stream);
}

}  // namespace

void LaunchDecode(const Params& params, cudaStream_t stream) {
  params.args.layout.dtype == DType::kBF16 ? LaunchDType<Bfloat16>(params, stream)
                                           : LaunchDType<Float16>(params, stream);
}

void LaunchMergeSplits(const Params& params, cudaStream_t stream) {
  const int64_t units = int64_t{params.args.num_sequences} * params.args.num_heads;
  LaunchKernel(MergeKernel, static_cast<unsigned>(CeilDiv(units, kMergeWarps)), kMergeWarps * 32, 0,
               stream, params);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace graft::attention
