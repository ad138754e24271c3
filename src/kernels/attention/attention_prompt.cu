// Prompt attention on Hopper: rows that were given. A thread block takes 128 queries (rows times
// the query heads of one key head); two warpgroups multiply 64 each, in turns: one's softmax runs
// while the other's products do. The warps of a third bring keys, values and the next block's
// queries. Thread blocks stay and draw work, the longest of each sequence first. The softmax is
// online over tiles of positions, counted from 0: a tile that a query does not see changes nothing
// of it.
#include <algorithm>

#include "kernels/attention/attention_prompt_roles.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_tensor_map.cuh"
#include "kernels/common/cuda_vector.cuh"

namespace graft::attention {
namespace {

template <typename Shape, bool kCaps>
__global__ void __launch_bounds__(kPromptThreads, 1)
    PromptKernel(const __grid_constant__ Params params, const __grid_constant__ CUtensorMap map) {
#if defined(GRAFT_HOPPER)
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ int32_t warp_sums[kPromptThreads / 32];
  __shared__ PromptItem items[2];
  __shared__ __align__(8) uint64_t barriers[PromptBarriers<Shape>::kCount];
  auto* const begins = reinterpret_cast<int32_t*>(shared + Shape::kSharedBytes);
  const PromptBlock<Shape> block{params, shared, items, SharedAddress(barriers)};
  if (threadIdx.x == 0) {
    PrefetchMap(map);
    InitBarriers(block);
  }
  SumCounts(params.args.num_sequences, begins, warp_sums,
            [&](int sequence) { return NumPromptBlocks(params, sequence); });
  WaitForPrevious();
  LetNextStart();
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (group == 0) {
    GiveRegisters<56>();
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp == 0) {
      BringKeys(block, map);
    } else if (warp == 1) {
      BringValues(block, map);
    } else {
      BringQueries(block, begins, warp - 2);
    }
  } else {
    TakeRegisters<224>();
    PromptGroup<Shape, kCaps>(block, group - 1).Run();
  }
  __syncthreads();
  // The last block leaves the counters as it found them.
  if (threadIdx.x == 0) {
    __threadfence();
    if (atomicAdd(&params.counters[1], 1) == static_cast<int>(gridDim.x) - 1) {
      atomicExch(&params.counters[0], 0);
      atomicExch(&params.counters[1], 0);
    }
  }
#endif
}

// The pool as groups of eight positions, each laid out as the matrix instruction reads it.
template <typename Shape>
CUtensorMap MakePageMap(const AttentionArgs& args) {
  const KvLayout& layout = args.layout;
  const auto row_bytes = static_cast<cuuint64_t>(layout.head_dim) * 2;
  constexpr cuuint32_t kAtoms = Shape::kIsWhole ? Shape::kAtoms : 1;
  const cuuint64_t atom = Shape::kIsWhole ? 64 : static_cast<cuuint64_t>(layout.head_dim);
  const TensorMapShape shape{
      .count = 4,
      // Coordinates are int32; the pool's end is the page table's matter.
      .sizes = {atom, 8, kAtoms, cuuint64_t{1} << 31},
      .strides = {row_bytes, 128, 8 * row_bytes},
      .box = {64, 8, kAtoms,
              static_cast<cuuint32_t>(std::min(layout.page_tokens, Shape::kTile) / 8)}};
  return EncodeTensorMap(layout.dtype == DType::kBF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                      : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                         args.pool, shape, CU_TENSOR_MAP_SWIZZLE_128B,
                         CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}

template <typename T, int kDim, bool kCaps>
void LaunchShape(const Params& params, cudaStream_t stream) {
  using Shape = PromptShape<T, kDim>;
  const auto kernel = PromptKernel<Shape, kCaps>;
  const AttentionArgs& args = params.args;
  static const bool is_set = [&] {
    CUDA_CHECK(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
        Shape::kSharedBytes + static_cast<int>((kSequencesMax + 1) * sizeof(int32_t))));
    return true;
  }();
  static_cast<void>(is_set);
  const int64_t bytes = Shape::kSharedBytes + (args.num_sequences + 1) * int64_t{sizeof(int32_t)};
  const int64_t num_blocks =
      CeilDiv(int64_t{args.rows_max} * params.group, kPromptQueries) + args.num_sequences;
  const int64_t grid = std::min<int64_t>(num_blocks * args.layout.num_kv_heads, ResidentBlocks(1));
  LaunchKernel(kernel, static_cast<unsigned>(grid), kPromptThreads, static_cast<size_t>(bytes),
               stream, params, MakePageMap<Shape>(args));
}

template <typename T, bool kCaps>
void LaunchHeadSize(const Params& params, cudaStream_t stream) {
  switch (params.args.layout.head_dim) {
    case 64:
      return LaunchShape<T, 64, kCaps>(params, stream);
    case 128:
      return LaunchShape<T, 128, kCaps>(params, stream);
    case 256:
      return LaunchShape<T, 256, kCaps>(params, stream);
    default:
      return LaunchShape<T, 96, kCaps>(params, stream);
  }
}

template <typename T>
void LaunchPromptOf(const Params& params, cudaStream_t stream) {
  params.args.score_cap > 0.0f ? LaunchHeadSize<T, true>(params, stream)
                               : LaunchHeadSize<T, false>(params, stream);
}

}  // namespace

void LaunchPrompt(const Params& params, cudaStream_t stream) {
  params.args.layout.dtype == DType::kBF16 ? LaunchPromptOf<Bfloat16>(params, stream)
                                           : LaunchPromptOf<Float16>(params, stream);
}

}  // namespace graft::attention
