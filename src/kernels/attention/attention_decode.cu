// Decode: sequences of one row. A warp takes one split of a sequence, one key head and up to 16 of
// its query heads, and streams keys and values through a ring of its own in shared memory, with
// loads always two half tiles ahead, across the end of one split into the next. Warps draw their
// work, the longest splits first, and none waits for another. Bound by memory: what is computed
// fills an eighth of the tensor cores' time.
#include <algorithm>

#include "kernels/attention/attention_work.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"

namespace graft::attention {
namespace {

constexpr int kRingSlots = 3;  // of the keys or the values of a tile, in turn

template <int kDim>
constexpr int kSlotBytes = kTileTokens* kDim * 2;
constexpr int kWarpsMax = 4;
template <int kDim>
constexpr int kWarps = kDim > 128 ? 2 : kWarpsMax;
template <int kDim>
constexpr int kBlocksPerMultiprocessor = kDim > 64 ? 1 : 2;

// One split of one sequence for up to 8 kQueryTiles query heads.
struct SplitItem {
  int sequence;
  int split;     // of the sequence
  bool is_only;  // the sequence has no other
  int kv_head;
  int head_begin;  // among the key head's query heads
  int position;    // of the row
  int tile_begin;
  int tile_end;
};

// Where the row's splits lie.
struct RowSplits {
  int position;
  int first_visible;
  __device__ __forceinline__ RowSplits(const Params& params, int sequence)
      : position(params.args.kv_tokens[sequence] - 1),
        first_visible(FirstVisible(position, params.window)) {}
  __device__ __forceinline__ int first() const { return first_visible / kSplitTokens; }
  __device__ __forceinline__ int last() const { return position / kSplitTokens; }
  __device__ __forceinline__ int TileBegin(int split) const {
    return max(first_visible, split * kSplitTokens) / kTileTokens;
  }
  __device__ __forceinline__ int TileEnd(int split) const {
    return min(position, (split + 1) * kSplitTokens - 1) / kTileTokens + 1;
  }
};

__device__ __forceinline__ bool IsDecoded(const Params& params, int sequence) {
  return params.args.row_begin[sequence + 1] - params.args.row_begin[sequence] == 1;
}

// Splits that the row of a sequence sees; 0 where the sequence is not one row.
__device__ __forceinline__ int NumSplits(const Params& params, int sequence) {
  if (!IsDecoded(params, sequence)) return 0;
  const RowSplits splits(params, sequence);
  return splits.last() - splits.first() + 1;
}

// Numbers of sequences by the tiles of their last split, sixteen bits for each: the longest in the
// lowest.
struct LengthCounts {
  uint64_t long_ones;
  uint64_t short_ones;

  __device__ __forceinline__ LengthCounts& operator+=(const LengthCounts& other) {
    long_ones += other.long_ones;
    short_ones += other.short_ones;
    return *this;
  }
};
static_assert(kSplitTokens / kTileTokens == 8 && kSequencesMax < 1 << 16);

__device__ __forceinline__ LengthCounts ShuffleUp(const LengthCounts& counts, int distance) {
  return {__shfl_up_sync(0xffffffffu, counts.long_ones, distance),
          __shfl_up_sync(0xffffffffu, counts.short_ones, distance)};
}

// The launch's splits, in the order in which they are drawn, if they are.
template <bool kDraws>
class SplitList {
 public:
  static constexpr int Bytes(int num_sequences) {
    return (num_sequences + 1) * static_cast<int>(sizeof(int32_t) + sizeof(uint16_t));
  }
  // Needed while the list is made.
  static constexpr int ScratchBytes(int num_sequences) {
    return (num_sequences + 1) * static_cast<int>(sizeof(LengthCounts) + 1);
  }

  // All threads of the block. num_parts: of a key head's query heads; num_warps: of all blocks.
  __device__ __forceinline__ SplitList(const Params& params, int num_parts, int num_warps,
                                       unsigned char* shared, unsigned char* scratch)
      : params_(params), num_sequences_(params.args.num_sequences), num_parts_(num_parts) {
    begins_ = reinterpret_cast<int32_t*>(shared);
    by_length_ = reinterpret_cast<uint16_t*>(begins_ + num_sequences_ + 1);
    __shared__ int32_t warp_sums[kWarpsMax];
    SumCounts(num_sequences_, begins_, warp_sums,
              [&](int sequence) { return NumSplits(params_, sequence); });
    num_items_ = begins_[num_sequences_] * ItemsPerSplit();
    if (kDraws && num_items_ > num_warps) PutShortOnesLast(scratch);
  }

  __device__ __forceinline__ int num_items() const { return num_items_; }

  // Item: a split, a key head and a part of its query heads.
  template <int kQueryTiles>
  __device__ __forceinline__ SplitItem At(int item) const {
    const int idx = item / ItemsPerSplit();
    const int part = item % ItemsPerSplit();
    // Below zero also where nothing was sorted.
    const int last = kDraws ? idx - begins_[num_sequences_] : -1;
    SplitItem found;
    found.sequence = last >= 0 ? by_length_[last] : FindBegin(begins_, num_sequences_, idx);
    found.kv_head = part / num_parts_;
    found.head_begin = part % num_parts_ * 8 * kQueryTiles;
    const RowSplits splits(params_, found.sequence);
    found.position = splits.position;
    found.split = last >= 0 ? splits.last() : splits.first() + idx - begins_[found.sequence];
    found.is_only = splits.first() == splits.last();
    found.tile_begin = splits.TileBegin(found.split);
    found.tile_end = splits.TileEnd(found.split);
    return found;
  }

 private:
  __device__ __forceinline__ int ItemsPerSplit() const {
    return params_.args.layout.num_kv_heads * num_parts_;
  }

  // The sequences' last splits behind all others, the longest first: so what is left at the end
  // comes in small pieces.
  __device__ __forceinline__ void PutShortOnesLast(unsigned char* scratch) {
    auto* const before = reinterpret_cast<LengthCounts*>(scratch);
    auto* const fields = reinterpret_cast<int8_t*>(before + num_sequences_ + 1);
    __shared__ LengthCounts warp_counts[kWarpsMax];
    SumCounts(num_sequences_, before, warp_counts, [&](int sequence) {
      const int field = IsDecoded(params_, sequence) ? FieldOf(RowSplits(params_, sequence)) : -1;
      fields[sequence] = static_cast<int8_t>(field);
      LengthCounts counts{};
      if (field >= 0) {
        (field < 4 ? counts.long_ones : counts.short_ones) = uint64_t{1} << field % 4 * 16;
      }
      return counts;
    });
    const LengthCounts all = before[num_sequences_];
    for (int i = static_cast<int>(threadIdx.x); i <= num_sequences_;
         i += static_cast<int>(blockDim.x)) {
      begins_[i] -= SumOfFields(before[i].long_ones) + SumOfFields(before[i].short_ones);
      const int field = i < num_sequences_ ? fields[i] : -1;
      if (field >= 0) by_length_[Rank(before[i], all, field)] = static_cast<uint16_t>(i);
    }
    __syncthreads();
  }

  static __device__ __forceinline__ int FieldOf(const RowSplits& splits) {
    return kSplitTokens / kTileTokens -
           (splits.TileEnd(splits.last()) - splits.TileBegin(splits.last()));
  }
  static __device__ __forceinline__ int SumOfFields(uint64_t fields) {
    return static_cast<int>(fields * 0x0001'0001'0001'0001 >> 48);
  }
  // Sequences whose last split is longer, and earlier ones with one as long.
  static __device__ __forceinline__ int Rank(const LengthCounts& before, const LengthCounts& all,
                                             int field) {
    const auto rank = [&](uint64_t fields_before, uint64_t fields) {
      const uint64_t longer = fields * 0x0001'0001'0001'0000;  // in each field those below it
      return static_cast<int>((fields_before + longer) >> field % 4 * 16 & 0xffff);
    };
    if (field < 4) return rank(before.long_ones, all.long_ones);
    return SumOfFields(all.long_ones) + rank(before.short_ones, all.short_ones);
  }

  const Params& params_;
  const int num_sequences_;
  const int num_parts_;
  int num_items_;
  int32_t* begins_;      // [num_sequences + 1]: splits before each sequence's, once sorted without
                         // the last ones
  uint16_t* by_length_;  // sequences, those with the longest last splits first
};
static_assert(SplitList<true>::ScratchBytes(kSequencesMax) <=
              kWarps<64> * kRingSlots * kSlotBytes<64>);

// Fills the ring's slots in the order in which they are used: keys, values, keys, ... A warp's
// first item is its own, the others, where there can be more than warps, are drawn.
template <typename T, int kDim, int kQueryTiles, bool kDraws>
class RingLoader {
 public:
  // counter: items drawn by all warps, zero before and after the launch.
  __device__ __forceinline__ RingLoader(const Params& params, const SplitList<kDraws>& list,
                                        int item, int num_warps, int32_t* counter)
      : params_(params),
        list_(list),
        num_warps_(num_warps),
        num_items_(list.num_items()),
        counter_(counter),
        copier_(params.args, 0) {
    StartItem(item);
  }

  // Whether the next tile may be copied before the kernel in front has ended: it is without the
  // row's own position, and nothing is drawn.
  __device__ __forceinline__ bool NextTileIsOld() const {
    return item_ < num_items_ && tile_ < newest_tile_ && (!kDraws || tile_ + 1 < tile_end_);
  }

  // Start the next tile's copies, if there is one: keys first, then values.
  __device__ __forceinline__ void LoadKeys(uint32_t slot) {
    if (item_ < num_items_) {
      copier_.CopyKeys(slot);
      if (kDraws && tile_ + 1 == tile_end_) Draw();
    }
    CommitCopies();
  }
  __device__ __forceinline__ void LoadValues(uint32_t slot) {
    if (item_ < num_items_) {
      copier_.CopyValues(slot);
      if (++tile_ != tile_end_) {
        copier_.FindPages(tile_ * kTileTokens);
      } else if constexpr (kDraws) {
        StartItem(Drawn());
      } else {
        item_ = num_items_;
      }
    }
    CommitCopies();
  }

  // The next item to be multiplied: they come here in the order of the ring.
  __device__ __forceinline__ int TakeItem() {
    const int item = next_;
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

  __device__ __forceinline__ void StartItem(int idx) {
    item_ = idx;
    if (num_started_++ == 0) {
      next_ = idx;
    } else {
      second_next_ = idx;
    }
    if (idx >= num_items_) return;
    const SplitItem item = list_.template At<kQueryTiles>(idx);
    tile_ = item.tile_begin;
    tile_end_ = item.tile_end;
    newest_tile_ = item.position / kTileTokens;
    copier_.StartHead(params_.args.pages + params_.args.page_begin[item.sequence], item.kv_head,
                      FirstVisible(item.position, params_.window), item.position + 1);
    copier_.FindPages(tile_ * kTileTokens);
  }

  const Params& params_;
  const SplitList<kDraws>& list_;
  const int num_warps_;
  const int num_items_;
  int32_t* const counter_;
  int item_ = 0;
  int drawn_ = 0;
  // Started and not yet taken: the ring has room for no third.
  int next_ = 0;
  int second_next_ = 0;
  int num_started_ = 0;
  int tile_ = 0;
  int tile_end_ = 0;
  int newest_tile_ = 0;
  TileCopier<T, kDim, kTileTokens> copier_;
};

// The row's queries, one head a column, in registers as the tensor cores take them.
template <typename T, int kDim, int kQueryTiles>
struct RegisterQueries {
  uint32_t pairs[kDim / 16][kQueryTiles][2];

  __device__ __forceinline__ RegisterQueries(const Params& params, const SplitItem& item) {
    const AttentionArgs& args = params.args;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int head_dim = args.layout.head_dim;
    const float* row = args.q + args.row_begin[item.sequence] * args.q_stride;
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
  const int64_t first =
      (int64_t{item.sequence} * params.splits_max + item.split) * params.args.num_heads +
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
  if (!item.is_only) return WritePartial(params, item, state);
  const AttentionArgs& args = params.args;
  const int head_dim = args.layout.head_dim;
  const int num_heads = params.group - item.head_begin;
  const int64_t first = int64_t{args.row_begin[item.sequence]} * args.num_heads +
                        item.kv_head * params.group + item.head_begin;
  WriteResults(
      params, [&](int i) -> int64_t { return i < num_heads ? (first + i) * head_dim : -1; }, state);
}

template <typename T, int kDim, int kQueryTiles, bool kDraws>
__global__ void __launch_bounds__(kWarps<kDim> * 32)
    DecodeKernel(const __grid_constant__ Params params) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int num_warps = static_cast<int>(gridDim.x) * kWarps<kDim>;
  const int num_parts = (params.group + 8 * kQueryTiles - 1) / (8 * kQueryTiles);
  const SplitList<kDraws> list(params, num_parts, num_warps,
                               shared + kWarps<kDim> * kRingSlots * kSlotBytes<kDim>, shared);
  const int num_items = list.num_items();

  const uint32_t ring = SharedAddress(shared) + warp * kRingSlots * kSlotBytes<kDim>;
  RingLoader<T, kDim, kQueryTiles, kDraws> loader(
      params, list, warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x), num_warps,
      &params.counters[2]);
  const auto after = [&](uint32_t slot) {
    return slot == ring + (kRingSlots - 1) * kSlotBytes<kDim> ? ring : slot + kSlotBytes<kDim>;
  };
  // Of this step the pool gets one position of a sequence: all before it may be read while the
  // kernel that writes it still runs, and that kernel's time would be memory's idle time.
  bool has_waited = params.wait_late;
  const auto wait_for_newest = [&] {
    if (has_waited || loader.NextTileIsOld()) return;
    WaitForPrevious();
    has_waited = true;
  };
  wait_for_newest();
  loader.LoadKeys(ring);
  loader.LoadValues(ring + kSlotBytes<kDim>);
  wait_for_newest();
  loader.LoadKeys(ring + 2 * kSlotBytes<kDim>);
  if (!has_waited) WaitForPrevious();
  if (params.splits_max > 1 || !params.args.next_starts_late) LetNextStart();
  uint32_t slot = ring;
  // Until the slot's copy, the third last begun, can be seen by the whole warp.
  const auto wait = [] {
    WaitForCopies<kRingSlots - 1>();
    __syncwarp();
  };
  for (int idx = loader.TakeItem(); idx < num_items; idx = loader.TakeItem()) {
    const SplitItem item = list.template At<kQueryTiles>(idx);
    const RegisterQueries<T, kDim, kQueryTiles> queries(params, item);
    Visible<kQueryTiles> visible;
    visible.window = params.window;
    visible.last_min = visible.last_max = item.position;
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) visible.last[n][0] = visible.last[n][1] = item.position;
    SplitState<kDim, kQueryTiles> state;
    state.Reset();
    for (int tile = item.tile_begin; tile < item.tile_end; ++tile) {
      float scores[kKeyTiles][kQueryTiles][4];
      uint32_t weights[kKeyTiles][kQueryTiles][2];
      wait();
      MultiplyKeys<T, kDim>(slot, queries, scores);
      __syncwarp();
      loader.LoadValues(slot);
      slot = after(slot);
      if (!visible.All(tile * kTileTokens)) Mask(tile * kTileTokens, visible, scores);
      WeighScores<T>(params.scale_log2, scores, state, weights);
      wait();
      MultiplyValues<T>(slot, weights, state);
      __syncwarp();
      loader.LoadKeys(slot);
      slot = after(slot);
    }
    FinishItem(params, item, state);
    if constexpr (!kDraws) break;
  }
  WaitForCopies<0>();
  if (params.wait_late) WaitForPrevious();
}

// Folds the splits of decode rows that have several, a warp per query head.
constexpr int kMergeWarps = 4;
constexpr int kMergeAhead = 8;  // splits read at once

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
  if (params.args.next_starts_late) LetNextStart();
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

template <typename T, int kDim, int kQueryTiles, bool kDraws>
void LaunchOf(const Params& params, int64_t num_blocks, cudaStream_t stream) {
  const auto kernel = DecodeKernel<T, kDim, kQueryTiles, kDraws>;
  constexpr int kRingBytes = kWarps<kDim> * kRingSlots * kSlotBytes<kDim>;
  static const bool is_set = [&] {
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    kRingBytes + SplitList<kDraws>::Bytes(kSequencesMax)));
    return true;
  }();
  static_cast<void>(is_set);
  const int bytes = kRingBytes + SplitList<kDraws>::Bytes(params.args.num_sequences);
  LaunchKernel(kernel, static_cast<unsigned>(num_blocks), kWarps<kDim> * 32,
               static_cast<size_t>(bytes), stream, params);
  CUDA_CHECK(cudaGetLastError());
}

template <typename T, int kDim, int kQueryTiles>
void Launch(const Params& params, cudaStream_t stream) {
  const AttentionArgs& args = params.args;
  const int64_t items_max = int64_t{args.num_sequences} * params.splits_max *
                            args.layout.num_kv_heads * CeilDiv(params.group, 8 * kQueryTiles);
  const int64_t num_blocks =
      std::min<int64_t>(items_max, ResidentBlocks(kBlocksPerMultiprocessor<kDim>));
  // A kernel of its own where every warp has one item at most: drawing is code that a lone
  // sequence's step would have to fetch for nothing.
  if (items_max > num_blocks * kWarps<kDim>) {
    LaunchOf<T, kDim, kQueryTiles, true>(params, num_blocks, stream);
  } else {
    LaunchOf<T, kDim, kQueryTiles, false>(params, num_blocks, stream);
  }
}

template <typename T, int kDim>
void LaunchDim(const Params& params, cudaStream_t stream) {
  if constexpr (kDim <= 128) {  // registers hold no more
    if (params.group > 8) return Launch<T, kDim, 2>(params, stream);
  }
  Launch<T, kDim, 1>(params, stream);
}

template <typename T>
void LaunchDType(const Params& params, cudaStream_t stream) {
  const int head_dim = params.args.layout.head_dim;
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
