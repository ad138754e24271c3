// Prompt attention without Hopper's instructions: rows that were given, on every card that has
// mma.sync and cp.async (sm_80 and later). A thread block takes 128 queries (rows times the query
// heads of one key head); a warp has 16 or 32 of them and keeps their scores in registers, and all
// read the same ring of keys and values. Thread blocks stay and draw work, the longest of each
// sequence first. The softmax is online over tiles of positions, counted from 0: a tile that a
// query does not see changes nothing of it.
#include <algorithm>

#include "kernels/attention/attention_prompt_mma.cuh"
#include "kernels/attention/attention_prompt_mma_copy.cuh"
#include "kernels/common/cuda_launch.cuh"

namespace graft::attention {
namespace {

// A block's ring of tiles of keys and values. Each item begins it anew.
template <typename Shape>
class MmaRing {
 public:
  __device__ __forceinline__ MmaRing(const Params& params, uint32_t shared)
      : ring_(shared + Shape::kQueryBytes), copier_(params.args) {}

  // No tile of the ring may be in use any more. The item stays where it is while its tiles come.
  __device__ __forceinline__ void StartItem(const PromptItem& item) {
    item_ = &item;
    copier_.StartItem(item);
    copier_.FindPages(item, item.tile_begin);
#pragma unroll 1
    for (int i = 0; i < Shape::kStages - 1; ++i) {
      Load(item.tile_begin + i, i * Shape::kStageBytes);
    }
    use_ = 0;
  }

  // Waits for a tile, begins to bring another one where the last has been, and returns where its
  // keys are. Tiles are taken in turn.
  __device__ __forceinline__ uint32_t Take(int tile) {
    WaitForCopies<Shape::kStages - 2>();
    __syncthreads();
    Load(tile + Shape::kStages - 1, Last());
    const uint32_t keys = ring_ + use_;
    use_ = use_ == kEnd ? 0 : use_ + Shape::kStageBytes;
    return keys;
  }
  // Where the values of the tile are that was taken last.
  __device__ __forceinline__ uint32_t Values() const { return ring_ + Last() + Shape::kKeyBytes; }

 private:
  static constexpr uint32_t kEnd = (Shape::kStages - 1) * Shape::kStageBytes;

  // The tile that was taken last, in the ring.
  __device__ __forceinline__ uint32_t Last() const {
    return use_ == 0 ? kEnd : use_ - Shape::kStageBytes;
  }
  __device__ __forceinline__ void Load(int tile, uint32_t stage) {
    if (tile < item_->tile_end) {
      copier_.CopyKeys(ring_ + stage);
      copier_.CopyValues(ring_ + stage + Shape::kKeyBytes);
      copier_.FindPages(*item_, tile + 1);
    }
    CommitCopies();
  }

  const uint32_t ring_;
  MmaCopier<Shape> copier_;
  const PromptItem* item_ = nullptr;
  uint32_t use_ = 0;  // where the next tile to be taken lies in the ring
};

template <typename Shape>
class MmaPrompt {
  static constexpr int kTile = Shape::kTile;

 public:
  // items: two places in shared memory.
  __device__ __forceinline__ MmaPrompt(const Params& params, int64_t cache_bytes, uint32_t shared,
                                       PromptItem* items)
      : params_(params),
        cache_bytes_(cache_bytes),
        items_(items),
        warp_(static_cast<int>(threadIdx.x) / 32),
        ring_(params, shared),
        queries_(shared) {}

  __device__ __forceinline__ void Run() {
    if (warp_ == 0) FindItem(static_cast<int>(blockIdx.x), items_[0]);
    __syncthreads();
    if (items_[0].sequence >= 0) ring_.StartItem(items_[0]);
#pragma unroll 1
    for (int number = 0; items_[number % 2].sequence >= 0; ++number) {
      const PromptItem& item = items_[number % 2];
      PromptItem& next = items_[(number + 1) % 2];
      // The answer is wanted at the item's end.
      int drawn = 0;
      if (threadIdx.x == 0) drawn = atomicAdd(&params_.counters[0], 1);
      const int warp_query = item.first_query + warp_ * Shape::kWarpQueries;
      BringQueries(item, warp_query);
      // It waits where the item will be: a warp may be reading the item's other numbers still.
      if (threadIdx.x == 0) next.sequence = drawn;
      MultiplyTiles(item, warp_query);
      if (warp_ == 0) FindItem(static_cast<int>(gridDim.x) + next.sequence, next);
      __syncthreads();
      if (next.sequence >= 0) ring_.StartItem(next);
      Write(item, warp_query);
    }
    WaitForCopies<0>();
  }

 private:
  // By all lanes of a warp.
  __device__ __forceinline__ void FindItem(int idx, PromptItem& item) const {
    const int num_heads = params_.args.layout.num_kv_heads;
    const FoundBlock at = FindBlock(params_.args.num_sequences, idx / num_heads, [&](int sequence) {
      return NumPromptBlocks(params_, sequence);
    });
    if (threadIdx.x % 32 != 0) return;
    if (at.sequence < 0) {
      item.sequence = -1;
      return;
    }
    item = PromptItemOf(params_, at.sequence, at.num_blocks, at.block * num_heads + idx % num_heads,
                        {kTile, Shape::kDim * 4, cache_bytes_});
  }

  __device__ __forceinline__ void BringQueries(const PromptItem& item, int warp_query) {
    const MmaQuerySource source{params_, item};
    if (params_.q_vectors) {
      queries_.template Bring<true>(source, warp_query);
    } else {
      queries_.template Bring<false>(source, warp_query);
    }
  }

  __device__ __forceinline__ void MultiplyTiles(const PromptItem& item, int warp_query) {
    const MmaVisible<Shape> visible(params_, item, warp_query);
    state_.Reset();
#pragma unroll 1
    for (int tile = item.tile_begin; tile < item.tile_end; ++tile) {
      const int begin = tile * kTile;
      const bool sees = visible.Any(begin, params_.window);
      const uint32_t keys = ring_.Take(tile);
      if (!sees) continue;
      MmaScores<Shape> scores;
      MultiplyMmaKeys<Shape>(queries_, keys, scores);
      if (params_.cap_log2 != 0.0f) {
        CapMma<Shape>(params_.cap_log2, params_.cap_exponent, scores);
      }
      if (!visible.All(begin, params_.window)) {
        MaskMma<Shape>(params_, item, warp_query, begin, scores);
      }
      MmaWeights<Shape> weights;
      WeighMma<Shape>(params_.scale_log2, scores, state_, weights);
      MultiplyMmaValues<Shape>(weights, ring_.Values(), state_);
    }
    state_.ReduceWeights();
  }

  __device__ __forceinline__ void Write(const PromptItem& item, int warp_query) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int query = warp_query + 16 * m + lane / 4 + 8 * i;
        if (query >= item.num_queries) continue;
        const int row = params_.RowOf(query);
        const int head = item.kv_head * params_.group + query - row * params_.group;
        WriteRow(m, i,
                 (int64_t{item.row_begin + row} * params_.args.num_heads + head) *
                     params_.args.layout.head_dim);
      }
    }
  }

  // Row i of the thread's, of the 16 queries m, from element `begin` of out on.
  __device__ __forceinline__ void WriteRow(int m, int i, int64_t begin) const {
    const int head_dim = params_.args.layout.head_dim;
    const float inverse = __frcp_rn(state_.weight[m][i]);
    DispatchOut(params_.args, [&](auto* out) {
      using Out = std::remove_pointer_t<decltype(out)>;
#pragma unroll
      for (int j = 0; j < Shape::kDim / 8; ++j) {
        const int dim = 8 * j + static_cast<int>(threadIdx.x) % 4 * 2;
        const float low = Normalised(state_.sum[m][j][2 * i], inverse);
        const float high = Normalised(state_.sum[m][j][2 * i + 1], inverse);
        if (dim >= head_dim) continue;
        if constexpr (sizeof(Out) == sizeof(float)) {
          out[begin + dim] = low, out[begin + dim + 1] = high;
        } else if (params_.out_pairs) {
          *reinterpret_cast<uint32_t*>(out + begin + dim) = PackPair<Out>(low, high);
        } else {
          out[begin + dim] = NarrowElement<Out>(low);
          out[begin + dim + 1] = NarrowElement<Out>(high);
        }
      }
    });
  }

  const Params& params_;
  const int64_t cache_bytes_;
  PromptItem* const items_;
  const int warp_;
  MmaRing<Shape> ring_;
  MmaQueries<Shape> queries_;
  MmaState<Shape> state_;
};

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    MmaPromptKernel(const __grid_constant__ Params params, int64_t cache_bytes) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ PromptItem items[2];
  WaitForPrevious();
  LetNextStart();
  MmaPrompt<Shape>(params, cache_bytes, SharedAddress(shared), items).Run();
  // The last block leaves the counters as it found them.
  if (threadIdx.x == 0) {
    __threadfence();
    if (atomicAdd(&params.counters[1], 1) == static_cast<int>(gridDim.x) - 1) {
      atomicExch(&params.counters[0], 0);
      atomicExch(&params.counters[1], 0);
    }
  }
}

template <typename Shape>
void LaunchShape(const Params& params, cudaStream_t stream) {
  const auto kernel = MmaPromptKernel<Shape>;
  const AttentionArgs& args = params.args;
  const DeviceTraits& traits = CurrentTraits();
  constexpr int kBytes = Shape::kSharedBytes;
  static const bool is_set = [&] {
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    return true;
  }();
  static_cast<void>(is_set);
  const int64_t num_blocks =
      CeilDiv(int64_t{args.rows_max} * params.group, kPromptQueries) + args.num_sequences;
  const int resident =
      ResidentBlocks(BlocksPerMultiprocessor(traits, kBytes, Shape::kThreads, Shape::kBlocks));
  const int64_t grid = std::min<int64_t>(num_blocks * args.layout.num_kv_heads, resident);
  LaunchKernel(kernel, static_cast<unsigned>(grid), Shape::kThreads, kBytes, stream, params,
               traits.l2_bytes / 2);
}

// Whether Large fills a multiprocessor with as many blocks as it is made for.
template <typename Large>
bool HasRoom() {
  constexpr int kItemBytes = 128;
  return Large::kSharedBytes + kItemBytes <= BlockBytesMax(CurrentTraits(), Large::kBlocks);
}

template <typename T>
void LaunchMmaPromptOf(const Params& params, cudaStream_t stream) {
  const int head_dim = params.args.layout.head_dim;
  if (head_dim <= 64) return LaunchShape<MmaShape64<T>>(params, stream);
  if (head_dim <= 96) return LaunchShape<MmaShape96<T>>(params, stream);
  if (head_dim <= 128) {
    return HasRoom<LargeMmaShape128<T>>() ? LaunchShape<LargeMmaShape128<T>>(params, stream)
                                          : LaunchShape<SmallMmaShape128<T>>(params, stream);
  }
  HasRoom<LargeMmaShape256<T>>() ? LaunchShape<LargeMmaShape256<T>>(params, stream)
                                 : LaunchShape<SmallMmaShape256<T>>(params, stream);
}

}  // namespace

void LaunchPromptMma(const Params& params, cudaStream_t stream) {
  params.args.layout.dtype == DType::kBF16 ? LaunchMmaPromptOf<Bfloat16>(params, stream)
                                           : LaunchMmaPromptOf<Float16>(params, stream);
}

}  // namespace graft::attention
