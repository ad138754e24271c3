// Decode: sequences of one row. Where there are fewer items than multiprocessors a block takes one
// (attention_decode_block.cuh), if the heads are of a size for it and the card's blocks have the
// shared memory; else a warp does (attention_decode_warps.cuh). What is launched depends on bounds
// and on the card's memory, what is done on the items that there are; no bit of a result depends on
// it.
#include <algorithm>

#include "kernels/attention/attention_decode_block.cuh"
#include "kernels/attention/attention_decode_warps.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"

namespace graft::attention {
namespace {

// The ring of a warp of a block that takes items as warps, too, and how many of its warps do so.
template <bool kCaps>
using WarpsOfBlock = WarpShape<kItemDim, 3, true, kCaps>;
template <typename Shape>
constexpr int kTakingWarps = Shape::kSharedBytesMax / WarpsOfBlock<Shape::kCaps>::kRingBytes;

// For heads that blocks can take. kWarps: whether there may be so many items that warps take them.
// Kernels of their own where there may not: a lone sequence's step pays for each line of code that
// it meets for the first time.
template <typename T, typename Shape, bool kWarps>
__global__ void __launch_bounds__(kItemWarps * 32)
    BlockDecodeKernel(const __grid_constant__ Params params) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const ItemList<1> list(params);
  if constexpr (kWarps) {
    if (list.count() > static_cast<int>(gridDim.x)) {
      constexpr int kTaking = kTakingWarps<Shape>;
      if (threadIdx.x >= kTaking * 32) return;
      return DecodeByWarps<T, WarpsOfBlock<Shape::kCaps>, 1>(params, list, kTaking,
                                                             SharedAddress(shared));
    }
  }
  DecodeByBlocks<T, Shape>(params, list, shared);
}

// For other heads and cards.
constexpr int kBlockWarpsMax = 4;
template <typename T, typename Shape, int kQueryTiles>
__global__ void __launch_bounds__(kBlockWarpsMax * 32)
    WarpDecodeKernel(const __grid_constant__ Params params) {
  extern __shared__ __align__(1024) unsigned char shared[];
  DecodeByWarps<T, Shape, kQueryTiles>(params, ItemList<kQueryTiles>(params),
                                       static_cast<int>(blockDim.x) / 32, SharedAddress(shared));
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

void LaunchWith(void (*kernel)(Params), int64_t num_blocks, int num_threads, int shared_bytes,
                const Params& params, cudaStream_t stream) {
  LaunchKernel(kernel, static_cast<unsigned>(num_blocks), static_cast<unsigned>(num_threads),
               static_cast<size_t>(shared_bytes), stream, params);
  CUDA_CHECK(cudaGetLastError());
}

// Once per kernel.
bool AllowShared(void (*kernel)(Params), int shared_bytes) {
  CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  return true;
}

template <typename T, typename Shape, bool kWarps>
void LaunchBlockKind(const Params& params, int64_t num_blocks, cudaStream_t stream) {
  constexpr int kOfWarps = kTakingWarps<Shape> * WarpsOfBlock<Shape::kCaps>::kRingBytes;
  constexpr int kSharedBytes =
      kWarps ? std::max(Shape::kSharedBytes, kOfWarps) : Shape::kSharedBytes;
  static_assert(kSharedBytes <= Shape::kSharedBytesMax);
  const auto kernel = BlockDecodeKernel<T, Shape, kWarps>;
  static const bool is_allowed = AllowShared(kernel, kSharedBytes);
  static_cast<void>(is_allowed);
  LaunchWith(kernel, num_blocks, kItemWarps * 32, kSharedBytes, params, stream);
}

template <typename T, typename Shape>
void LaunchByBlocks(const Params& params, cudaStream_t stream) {
  const int64_t items_max = ItemsMax(params, 1);
  const int64_t num_blocks = std::min<int64_t>(items_max, ResidentBlocks(1));
  if (items_max == num_blocks) {
    LaunchBlockKind<T, Shape, false>(params, num_blocks, stream);
  } else {
    LaunchBlockKind<T, Shape, true>(params, num_blocks, stream);
  }
}

// So many warps a block, and blocks a multiprocessor, that most rings are at work.
struct WarpGrid {
  int warps = 0;
  int blocks = 0;

  WarpGrid(int ring_bytes, const DeviceTraits& traits) {
    for (int of_multiprocessor = 1; of_multiprocessor <= 2; ++of_multiprocessor) {
      const int fit = BlockBytesMax(traits, of_multiprocessor) / ring_bytes;
      const int of_block = std::min(fit, kBlockWarpsMax);
      if (of_block * of_multiprocessor <= warps * blocks) continue;
      warps = of_block;
      blocks = of_multiprocessor;
    }
    CHECK_GT(warps, 0) << "no room for " << ring_bytes << " bytes of keys and values";
  }
};

template <typename T, typename Shape, int kQueryTiles>
void LaunchWarpKind(const Params& params, int64_t num_blocks, int warps, cudaStream_t stream) {
  const auto kernel = WarpDecodeKernel<T, Shape, kQueryTiles>;
  const int shared_bytes = warps * Shape::kRingBytes;
  static const bool is_allowed = AllowShared(kernel, shared_bytes);
  static_cast<void>(is_allowed);
  LaunchWith(kernel, num_blocks, warps * 32, shared_bytes, params, stream);
}

// Slots of a warp that has a block's shared memory alone, on a card of Hopper's memory; on others,
// where so many do not fit. Both odd.
template <int kDim>
constexpr int kAloneSlots = kDim > 128 ? 5 : 11;
template <int kDim>
constexpr int kFewAloneSlots = kDim > 128 ? 3 : 5;

template <typename T, int kDim, int kQueryTiles, bool kCaps, int kSlots>
void LaunchAlone(const Params& params, int64_t num_blocks, cudaStream_t stream) {
  LaunchWarpKind<T, WarpShape<kDim, kSlots, false, kCaps>, kQueryTiles>(params, num_blocks, 1,
                                                                        stream);
}

// Where there are fewer items than multiprocessors, a warp has a block's shared memory, and most of
// its split on its way at once.
template <typename T, int kDim, int kQueryTiles, bool kCaps>
void LaunchByWarps(const Params& params, cudaStream_t stream) {
  using Draws = WarpShape<kDim, 3, true, kCaps>;
  const DeviceTraits& traits = CurrentTraits();
  const WarpGrid grid(Draws::kRingBytes, traits);
  const int64_t items_max = ItemsMax(params, kQueryTiles);
  const int64_t num_blocks = std::min<int64_t>(items_max, ResidentBlocks(grid.blocks));
  if (items_max == num_blocks) {
    constexpr int kMany = kAloneSlots<kDim>;
    if (kMany * Draws::kSlotBytes <= BlockBytesMax(traits, grid.blocks)) {
      LaunchAlone<T, kDim, kQueryTiles, kCaps, kMany>(params, num_blocks, stream);
    } else {
      LaunchAlone<T, kDim, kQueryTiles, kCaps, kFewAloneSlots<kDim>>(params, num_blocks, stream);
    }
  } else if (items_max <= num_blocks * grid.warps) {
    LaunchWarpKind<T, WarpShape<kDim, 3, false, kCaps>, kQueryTiles>(params, num_blocks, grid.warps,
                                                                     stream);
  } else {
    LaunchWarpKind<T, Draws, kQueryTiles>(params, num_blocks, grid.warps, stream);
  }
}

// Heads of up to kItemDim dimensions, of up to 8 query heads at a time.
template <typename T, bool kCaps>
void LaunchByBlocksOrWarps(const Params& params, cudaStream_t stream) {
  const int shared_bytes_max = CurrentTraits().shared_bytes_max;
  if (shared_bytes_max >= kLargeSharedBytes) {
    LaunchByBlocks<T, BlockShape<kCaps, true>>(params, stream);
  } else if (shared_bytes_max >= kSmallSharedBytes) {
    LaunchByBlocks<T, BlockShape<kCaps, false>>(params, stream);
  } else {
    LaunchByWarps<T, kItemDim, 1, kCaps>(params, stream);
  }
}

template <typename T>
void LaunchDecodeOf(const Params& params, cudaStream_t stream) {
  const int head_dim = params.args.layout.head_dim;
  if (params.args.score_cap > 0.0f) {  // fewer kernels: the bits are the same in all
    return head_dim <= kItemDim ? LaunchByBlocksOrWarps<T, true>(params, stream)
                                : LaunchByWarps<T, 256, 1, true>(params, stream);
  }
  if (head_dim > kItemDim) return LaunchByWarps<T, 256, 1, false>(params, stream);
  const bool is_small = head_dim <= kItemDim / 2;
  if (params.group > 8) {
    return is_small ? LaunchByWarps<T, 64, 2, false>(params, stream)
                    : LaunchByWarps<T, 128, 2, false>(params, stream);
  }
  is_small ? LaunchByWarps<T, 64, 1, false>(params, stream)
           : LaunchByBlocksOrWarps<T, false>(params, stream);
}

}  // namespace

void LaunchDecode(const Params& params, cudaStream_t stream) {
  params.args.layout.dtype == DType::kBF16 ? LaunchDecodeOf<Bfloat16>(params, stream)
                                           : LaunchDecodeOf<Float16>(params, stream);
}

void LaunchMergeSplits(const Params& params, cudaStream_t stream) {
  const int64_t units = int64_t{params.args.num_sequences} * params.args.num_heads;
  LaunchKernel(MergeKernel, static_cast<unsigned>(CeilDiv(units, kMergeWarps)), kMergeWarps * 32, 0,
               stream, params);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace graft::attention
