// Decode: sequences of one row. A warp takes one split of a sequence, one key head and up to 16 of
// its query heads, and streams keys and values through a ring of its own in shared memory, with
// loads always two half tiles ahead, across the end of one split into the next. No warp waits for
// another. Bound by memory: what is computed fills an eighth of the tensor cores' time.
#include <algorithm>

#include "kernels/attention/attention_work.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"

namespace graft::attention {
namespace {

constexpr int kRingSlots = 3;  // of the keys or the values of a tile, in turn

template <int kDim>
constexpr int kSlotBytes = kTileTokens* kDim * 2;
template <int kDim>
constexpr int kWarps = kDim > 128 ? 2 : 4;
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

// Splits that the row of a sequence sees; 0 where the sequence is not one row.
__device__ __forceinline__ int NumSplits(const Params& params, int sequence) {
  const AttentionArgs& args = params.args;
  if (args.row_begin[sequence + 1] - args.row_begin[sequence] != 1) return 0;
  const int position = args.kv_tokens[sequence] - 1;
  return position / kSplitTokens - FirstVisible(position, params.window) / kSplitTokens + 1;
}

// begins: splits before each sequence, [num_sequences + 1].
template <int kQueryTiles>
__device__ __forceinline__ SplitItem FindItem(const Params& params, const int32_t* begins,
                                              int item) {
  const int num_parts = (params.group + 8 * kQueryTiles - 1) / (8 * kQueryTiles);
  const int parts_per_split = params.args.layout.num_kv_heads * num_parts;
  const int split = item / parts_per_split;
  const int part = item % parts_per_split;
  SplitItem found;
  found.sequence = FindBegin(begins, params.args.num_sequences, split);
  found.kv_head = part / num_parts;
  found.head_begin = part % num_parts * 8 * kQueryTiles;
  found.position = params.args.kv_tokens[found.sequence] - 1;
  const int first_visible = FirstVisible(found.position, params.window);
  const int first_split = first_visible / kSplitTokens;
  found.split = first_split + split - begins[found.sequence];
  found.is_only = begins[found.sequence + 1] - begins[found.sequence] == 1;
  found.tile_begin = max(first_visible, found.split * kSplitTokens) / kTileTokens;
  found.tile_end = min(found.position, (found.split + 1) * kSplitTokens - 1) / kTileTokens + 1;
  return found;
}

// Fills the ring's slots in the order in which they are used: keys, values, keys, ...
template <typename T, int kDim, int kQueryTiles>
class RingLoader {
 public:
  __device__ __forceinline__ RingLoader(const Params& params, const int32_t* begins, int item,
                                        int item_step, int num_items)
      : params_(params),
        begins_(begins),
        item_step_(item_step),
        num_items_(num_items),
        item_(item),
        copier_(params.args, 0) {
    StartItem();
  }

  // Whether there is a next tile, without the row's own position.
  __device__ __forceinline__ bool NextTileIsOld() const {
    return item_ < num_items_ && tile_ < newest_tile_;
  }

  // Start the next tile's copies, if there is one: keys first, then values.
  __device__ __forceinline__ void LoadKeys(uint32_t slot) {
    if (item_ < num_items_) copier_.CopyKeys(slot);
    CommitCopies();
  }
  __device__ __forceinline__ void LoadValues(uint32_t slot) {
    if (item_ < num_items_) {
      copier_.CopyValues(slot);
      if (++tile_ == tile_end_) {
        item_ += item_step_;
        StartItem();
      } else {
        copier_.FindPages(tile_ * kTileTokens);
      }
    }
    CommitCopies();
  }

 private:
  __device__ __forceinline__ void StartItem() {
    if (item_ >= num_items_) return;
    const SplitItem item = FindItem<kQueryTiles>(params_, begins_, item_);
    tile_ = item.tile_begin;
    tile_end_ = item.tile_end;
    newest_tile_ = item.position / kTileTokens;
    copier_.StartHead(params_.args.pages + params_.args.page_begin[item.sequence], item.kv_head,
                      FirstVisible(item.position, params_.window), item.position + 1);
    copier_.FindPages(tile_ * kTileTokens);
  }

  const Params& params_;
  const int32_t* begins_;
  const int item_step_;
  const int num_items_;
  int item_;
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

template <typename T, int kDim, int kQueryTiles>
__global__ void __launch_bounds__(kWarps<kDim> * 32)
    DecodeKernel(const __grid_constant__ Params params) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ int32_t warp_sums[kWarps<kDim>];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  auto* const begins =
      reinterpret_cast<int32_t*>(shared + kWarps<kDim> * kRingSlots * kSlotBytes<kDim>);
  const int num_sequences = params.args.num_sequences;
  SumCounts(num_sequences, begins, warp_sums,
            [&](int sequence) { return NumSplits(params, sequence); });
  const int num_parts = (params.group + 8 * kQueryTiles - 1) / (8 * kQueryTiles);
  const int num_items = begins[num_sequences] * params.args.layout.num_kv_heads * num_parts;

  const uint32_t ring = SharedAddress(shared) + warp * kRingSlots * kSlotBytes<kDim>;
  const int item_step = static_cast<int>(gridDim.x) * kWarps<kDim>;
  const int first_item = warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  RingLoader<T, kDim, kQueryTiles> loader(params, begins, first_item, item_step, num_items);
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
  for (int item_idx = first_item; item_idx < num_items; item_idx += item_step) {
    const SplitItem item = FindItem<kQueryTiles>(params, begins, item_idx);
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

template <typename T, int kDim, int kQueryTiles>
void Launch(const Params& params, cudaStream_t stream) {
  const auto kernel = DecodeKernel<T, kDim, kQueryTiles>;
  static const bool is_set = [&] {
    CUDA_CHECK(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
        kWarps<kDim> * kRingSlots * kSlotBytes<kDim> + (kSequencesMax + 1) * 4));
    return true;
  }();
  static_cast<void>(is_set);
  const AttentionArgs& args = params.args;
  const int64_t ring_bytes = int64_t{kWarps<kDim>} * kRingSlots * kSlotBytes<kDim>;
  const int64_t bytes = ring_bytes + (args.num_sequences + 1) * int64_t{sizeof(int32_t)};
  const int64_t num_items = int64_t{args.num_sequences} * params.splits_max *
                            args.layout.num_kv_heads * CeilDiv(params.group, 8 * kQueryTiles);
  const int64_t grid = std::min<int64_t>(num_items, ResidentBlocks(kBlocksPerMultiprocessor<kDim>));
  LaunchKernel(kernel, static_cast<unsigned>(grid), kWarps<kDim> * 32, static_cast<size_t>(bytes),
               stream, params);
  CUDA_CHECK(cudaGetLastError());
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
