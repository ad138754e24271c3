// Decode: sequences of one row. Where there are fewer items than multiprocessors a block takes one
// (attention_decode_block.cuh), if the heads are of a size for it; else a warp does
// (attention_decode_warps.cuh). What is launched depends on bounds, what is done on the items that
// there are; no bit of a result depends on it.
#include <algorithm>

#include "kernels/attention/attention_decode_block.cuh"
#include "kernels/attention/attention_decode_warps.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"

namespace graft::attention {
namespace {

// The warps of a block that takes items as warps, too.
template <bool kCaps>
using WarpsOfBlock = WarpShape<kItemDim, 4, 3, true, kCaps>;

// For heads that blocks can take. kWarps: whether there may be so many items that warps take them.
// Kernels of their own where there may not: a lone sequence's step pays for each line of code that
// it meets for the first time.
template <typename T, bool kCaps, bool kWarps>
__global__ void __launch_bounds__(kItemWarps * 32)
    BlockDecodeKernel(const __grid_constant__ Params params) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const ItemList<1> list(params);
  if constexpr (kWarps) {
    if (list.count() > static_cast<int>(gridDim.x)) {
      using Shape = WarpsOfBlock<kCaps>;
      if (threadIdx.x >= Shape::kWarps * 32) return;
      return DecodeByWarps<T, Shape, 1>(params, list, SharedAddress(shared));
    }
  }
  DecodeByBlocks<T, BlockShape<kCaps>>(params, list, shared);
}

// For other heads.
template <typename T, typename Shape, int kQueryTiles>
__global__ void __launch_bounds__(Shape::kWarps * 32)
    WarpDecodeKernel(const __grid_constant__ Params params) {
  extern __shared__ __align__(1024) unsigned char shared[];
  DecodeByWarps<T, Shape, kQueryTiles>(params, ItemList<kQueryTiles>(params),
                                       SharedAddress(shared));
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

template <typename T, bool kCaps, bool kWarps>
void LaunchBlockKind(const Params& params, int64_t num_blocks, cudaStream_t stream) {
  constexpr int kOfBlocks = BlockShape<kCaps>::kSharedBytes;
  constexpr int kSharedBytes =
      kWarps ? std::max(kOfBlocks, WarpsOfBlock<kCaps>::kSharedBytes) : kOfBlocks;
  const auto kernel = BlockDecodeKernel<T, kCaps, kWarps>;
  static const bool is_allowed = AllowShared(kernel, kSharedBytes);
  static_cast<void>(is_allowed);
  LaunchWith(kernel, num_blocks, kItemWarps * 32, kSharedBytes, params, stream);
}

template <typename T, bool kCaps>
void LaunchByBlocks(const Params& params, cudaStream_t stream) {
  const int64_t items_max = ItemsMax(params, 1);
  const int64_t num_blocks = std::min<int64_t>(items_max, ResidentBlocks(1));
  if (items_max == num_blocks) {
    LaunchBlockKind<T, kCaps, false>(params, num_blocks, stream);
  } else {
    LaunchBlockKind<T, kCaps, true>(params, num_blocks, stream);
  }
}

template <typename T, typename Shape, int kQueryTiles>
void LaunchWarpKind(const Params& params, int64_t num_blocks, cudaStream_t stream) {
  const auto kernel = WarpDecodeKernel<T, Shape, kQueryTiles>;
  static const bool is_allowed = AllowShared(kernel, Shape::kSharedBytes);
  static_cast<void>(is_allowed);
  LaunchWith(kernel, num_blocks, Shape::kWarps * 32, Shape::kSharedBytes, params, stream);
}

// Where there are fewer items than multiprocessors, a warp has a block's shared memory, and most of
// its split on its way at once.
template <typename T, int kDim, int kQueryTiles, bool kCaps>
void LaunchByWarps(const Params& params, cudaStream_t stream) {
  constexpr int kWarps = kDim > 128 ? 2 : 4;
  const int64_t items_max = ItemsMax(params, kQueryTiles);
  const int64_t num_blocks = std::min<int64_t>(items_max, ResidentBlocks(kDim > 64 ? 1 : 2));
  if (items_max == num_blocks) {
    using Alone = WarpShape<kDim, 1, 3 * kWarps - 1, false, kCaps>;
    LaunchWarpKind<T, Alone, kQueryTiles>(params, num_blocks, stream);
  } else if (items_max <= num_blocks * kWarps) {
    LaunchWarpKind<T, WarpShape<kDim, kWarps, 3, false, kCaps>, kQueryTiles>(params, num_blocks,
                                                                             stream);
  } else {
    LaunchWarpKind<T, WarpShape<kDim, kWarps, 3, true, kCaps>, kQueryTiles>(params, num_blocks,
                                                                            stream);
  }
}

template <typename T>
void LaunchDecodeOf(const Params& params, cudaStream_t stream) {
  const int head_dim = params.args.layout.head_dim;
  if (params.args.score_cap > 0.0f) {  // fewer kernels: the bits are the same in all
    return head_dim <= kItemDim ? LaunchByBlocks<T, true>(params, stream)
                                : LaunchByWarps<T, 256, 1, true>(params, stream);
  }
  if (head_dim > kItemDim) return LaunchByWarps<T, 256, 1, false>(params, stream);
  const bool is_small = head_dim <= kItemDim / 2;
  if (params.group > 8) {
    return is_small ? LaunchByWarps<T, 64, 2, false>(params, stream)
                    : LaunchByWarps<T, 128, 2, false>(params, stream);
  }
  is_small ? LaunchByWarps<T, 64, 1, false>(params, stream)
           : LaunchByBlocks<T, false>(params, stream);
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
