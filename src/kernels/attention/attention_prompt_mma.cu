// Prompt attention without Hopper's instructions: rows that were given, on every card that has
// mma.sync and cp.async (sm_80 and later). A thread block takes 128 queries (rows times the query
// heads of one key head); a warp has 16 or 32 of them, whose scores it keeps in registers, and all
// read the same ring of keys and values. Thread blocks stay and draw work, the longest of each
// sequence first. The softmax is online over tiles of positions, counted from 0: a tile that a
// query does not see changes nothing of it.
#include <algorithm>

#include "kernels/attention/attention_prompt_mma.cuh"
#include "kernels/attention/attention_prompt_mma_copy.cuh"
#include "kernels/common/cuda_launch.cuh"

namespace graft::attention {
namespace {

// A block's ring of keys and values, which goes on over its items.
template <typename Shape>
class MmaRing {
 public:
  __device__ __forceinline__ MmaRing(const Params& params, uint32_t shared)
      : params_(params), ring_(shared + Shape::kQueryBytes), copier_(params.args) {}

  // No slot of the ring may be in use any more.
  __device__ __forceinline__ void StartItem(const PromptItem& item) {
    copier_.StartHead(params_.args.pages + item.page_begin, item.kv_head, item.visible_begin,
                      item.kv_tokens);
    tile_ = item.tile_begin;
    tile_end_ = item.tile_end;
    copier_.FindPages(tile_);
    load_ = use_ = 0;
    if constexpr (Shape::kPairs) {
#pragma unroll
      for (int i = 0; i < Shape::kSlots / 2 - 1; ++i) LoadPair();
    } else {
#pragma unroll
      for (int i = 0; i < Shape::kSlots - 1; ++i) LoadSlot(i % 2 == 0);
    }
  }

  // The keys and then the values of each tile in turn: waits for them, begins to bring what comes
  // where the last have been, and returns where they are.
  __device__ __forceinline__ uint32_t TakeKeys() {
    if constexpr (Shape::kPairs) {
      WaitForCopies<Shape::kSlots / 2 - 2>();
      __syncthreads();
      LoadPair();
    } else {
      TakeSlot(Shape::kSlots % 2 == 1);
    }
    return Used();
  }
  __device__ __forceinline__ uint32_t TakeValues() {
    if constexpr (!Shape::kPairs) TakeSlot(Shape::kSlots % 2 == 0);
    return Used();
  }

 private:
  __device__ __forceinline__ void TakeSlot(bool loads_keys) {
    WaitForCopies<Shape::kSlots - 2>();
    __syncthreads();
    LoadSlot(loads_keys);
  }
  __device__ __forceinline__ void LoadSlot(bool keys) {
    if (tile_ < tile_end_) {
      if (keys) {
        copier_.CopyKeys(ring_ + load_);
        copier_.FindPages(tile_ + 1);
      } else {
        copier_.CopyValues(ring_ + load_);
        ++tile_;
      }
      Advance(load_);
    }
    CommitCopies();
  }
  __device__ __forceinline__ void LoadPair() {
    if (tile_ < tile_end_) {
      copier_.CopyKeys(ring_ + load_);
      Advance(load_);
      copier_.CopyValues(ring_ + load_);
      Advance(load_);
      copier_.FindPages(++tile_);
    }
    CommitCopies();
  }
  __device__ __forceinline__ uint32_t Used() {
    const uint32_t slot = ring_ + use_;
    Advance(use_);
    return slot;
  }
  static __device__ __forceinline__ void Advance(uint32_t& slot) {
    slot += Shape::kSlotBytes;
    if (slot == Shape::kSlots * Shape::kSlotBytes) slot = 0;
  }

  const Params& params_;
  const uint32_t ring_;
  MmaCopier<Shape> copier_;
  int tile_ = 0;  // the next to be brought
  int tile_end_ = 0;
  uint32_t load_ = 0;  // the slot of the next
  uint32_t use_ = 0;   // the slot of the next to be used
};

template <typename Shape>
class MmaPrompt {
  static constexpr int kTile = Shape::kTile;

 public:
  // drawn: two numbers of the block's.
  __device__ __forceinline__ MmaPrompt(const Params& params, int64_t cache_bytes, uint32_t shared,
                                       int32_t* drawn)
      : params_(params),
        cache_bytes_(cache_bytes),
        drawn_(drawn),
        warp_(static_cast<int>(threadIdx.x) / 32),
        ring_(params, shared),
        queries_(shared) {}

  __device__ __forceinline__ void Run() {
    PromptItem item = FindItem(static_cast<int>(blockIdx.x));
    if (item.sequence >= 0) ring_.StartItem(item);
    for (int number = 0; item.sequence >= 0; ++number) {
      // The answer is wanted at the item's end.
      int drawn = 0;
      if (threadIdx.x == 0) {
        drawn = static_cast<int>(gridDim.x) + atomicAdd(&params_.counters[0], 1);
      }
      const int warp_query = item.first_query + warp_ * Shape::kWarpQueries;
      BringQueries(item, warp_query);
      if (threadIdx.x == 0) drawn_[number % 2] = drawn;
      MultiplyTiles(item, warp_query);
      __syncthreads();
      const PromptItem next = FindItem(drawn_[number % 2]);
      if (next.sequence >= 0) ring_.StartItem(next);
      Write(item, warp_query);
      item = next;
    }
    WaitForCopies<0>();
  }

 private:
  __device__ __forceinline__ PromptItem FindItem(int idx) const {
    const int num_heads = params_.args.layout.num_kv_heads;
    const FoundBlock at = FindBlock(params_.args.num_sequences, idx / num_heads, [&](int sequence) {
      return NumPromptBlocks(params_, sequence);
    });
    if (at.sequence < 0) {
      PromptItem none;
      none.sequence = -1;
      return none;
    }
    return PromptItemOf(params_, at.sequence, at.num_blocks, at.block * num_heads + idx % num_heads,
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
      const bool sees = visible.Any(begin);
      const uint32_t keys = ring_.TakeKeys();
      MmaWeights<Shape> weights;
      if (sees) {
        MmaScores<Shape> scores;
        MultiplyMmaKeys<Shape>(queries_, keys, scores);
        if (params_.cap_log2 != 0.0f) {
          CapMma<Shape>(params_.cap_log2, params_.cap_exponent, scores);
        }
        if (!visible.All(begin)) MaskMma<Shape>(begin, visible, scores);
        WeighMma<Shape>(params_.scale_log2, scores, state_, weights);
      }
      const uint32_t values = ring_.TakeValues();
      if (sees) MultiplyMmaValues<Shape>(weights, values, state_);
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
  int32_t* const drawn_;
  const int warp_;
  MmaRing<Shape> ring_;
  MmaQueries<Shape> queries_;
  MmaState<Shape> state_;
};

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    MmaPromptKernel(const __grid_constant__ Params params, int64_t cache_bytes) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ int32_t drawn[2];
  WaitForPrevious();
  LetNextStart();
  MmaPrompt<Shape>(params, cache_bytes, SharedAddress(shared), drawn).Run();
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
  return Large::kSharedBytes + 64 <= BlockBytesMax(CurrentTraits(), Large::kBlocks);
}

template <typename T>
void LaunchPromptOf(const Params& params, cudaStream_t stream) {
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
  params.args.layout.dtype == DType::kBF16 ? LaunchPromptOf<Bfloat16>(params, stream)
                                           : LaunchPromptOf<Float16>(params, stream);
}

}  // namespace graft::attention
