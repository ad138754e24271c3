// What the warps of a block of prompt attention do: one brings keys, one values, two bring queries,
// of which one draws the work, and two warpgroups multiply.
#pragma once

#include "kernels/attention/attention_prompt_queries.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"

#if defined(GRAFT_HOPPER)

namespace graft::attention {

// What all roles of a block know.
template <typename Shape>
struct PromptBlock {
  using Barriers = PromptBarriers<Shape>;
  const Params& params;
  unsigned char* shared;
  PromptItem* items;  // [2] in shared memory
  uint32_t barriers;

  __device__ __forceinline__ uint32_t Barrier(int idx) const { return barriers + idx * 8; }
  __device__ __forceinline__ unsigned char* Queries(int stage) const {
    return shared + stage * Shape::kQueryBytes;
  }
  __device__ __forceinline__ unsigned char* Keys(int stage) const {
    return shared + Shape::kQueryStages * Shape::kQueryBytes + stage * Shape::kTileBytes;
  }
  __device__ __forceinline__ unsigned char* Values(int stage) const {
    return Keys(Shape::kStages + stage);
  }
  __device__ __forceinline__ unsigned char* Staging(int query_warp) const {
    return Keys(2 * Shape::kStages) + query_warp * kStagingBytes;
  }
  // The block's item of that number, once it is drawn. All lanes of a warp call it.
  __device__ __forceinline__ PromptItem WaitForItem(int number) const {
    const int slot = number % 2;
    BarrierWait(Barrier(Barriers::kItemFull + slot), number / 2 % 2);
    const PromptItem item = items[slot];
    __syncwarp();
    if (threadIdx.x % 32 == 0) BarrierArrive(Barrier(Barriers::kItemFree + slot));
    return item;
  }
};

template <typename Shape>
__device__ PromptItem FindPromptItem(const Params& params, const int32_t* begins, int idx) {
  const AttentionArgs& args = params.args;
  const int num_heads = args.layout.num_kv_heads;
  if (idx >= begins[args.num_sequences] * num_heads) {
    PromptItem none;
    none.sequence = -1;
    return none;
  }
  const int sequence = FindBegin(begins, args.num_sequences, idx / num_heads);
  return PromptItemOf(params, sequence, begins[sequence + 1] - begins[sequence],
                      idx - begins[sequence] * num_heads,
                      {Shape::kTile, Shape::kDim * 4, kCacheBytes});
}

// Copies the pages of a tile that hold visible positions; the warp's lanes have a page each.
template <typename Shape>
class PromptPages {
 public:
  __device__ __forceinline__ PromptPages(const Params& params, const CUtensorMap& map, bool values)
      : params_(params),
        map_(map),
        run_(min(params.args.layout.page_tokens, Shape::kTile)),
        part_(values ? params.args.layout.num_kv_heads : 0) {}

  __device__ __forceinline__ void StartItem(const PromptItem& item) {
    pages_ = params_.args.pages + item.page_begin;
    begin_ = item.visible_begin;
    end_ = item.kv_tokens;
    head_ = item.kv_head + part_;
  }
  __device__ __forceinline__ void FindPages(int tile) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const KvLayout& layout = params_.args.layout;
    const int position = tile * Shape::kTile + lane * run_;
    page_ = -1;
    if (lane * run_ >= Shape::kTile || position >= end_ || position + run_ <= begin_) return;
    const int page = position / layout.page_tokens;
    slot_ = position - page * layout.page_tokens;
    page_ = pages_[page];
  }
  // Copies the tile of the last FindPages. Its bytes count at `barrier`, which is told of them.
  __device__ __forceinline__ void Copy(uint32_t target, uint32_t barrier) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int count = __popc(__ballot_sync(0xffffffffu, page_ >= 0));
    if (lane == 0) BarrierExpect(barrier, count * run_ * Shape::kAtoms * 128);
    __syncwarp();
    if (page_ < 0) return;
    const KvLayout& layout = params_.args.layout;
    const int64_t run =
        (int64_t{page_} * layout.num_layers + params_.args.layer) * 2 * layout.num_kv_heads + head_;
    const auto group = static_cast<int>((run * layout.page_tokens + slot_) / 8);
    const uint32_t to = target + lane * (run_ / 8) * Shape::kGroupBytes;
    if constexpr (Shape::kIsWhole) {
      CopyBox4(map_, to, barrier, 0, 0, 0, group, kCacheNormal);
    } else {
#pragma unroll
      for (int atom = 0; atom < Shape::kAtoms; ++atom) {
        CopyBox4(map_, to + atom * Shape::kAtomBytes, barrier, atom * 64, 0, 0, group,
                 kCacheNormal);
      }
    }
  }
  __device__ __forceinline__ bool IsWhole(int tile) const {
    return tile * Shape::kTile >= begin_ && (tile + 1) * Shape::kTile <= end_;
  }
  // Puts zeros where nothing visible lies, since what was there last might not be finite.
  __device__ __forceinline__ void ClearGaps(int tile, unsigned char* target) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    constexpr int kChunks = Shape::kAtoms * 8;
    for (int i = lane; i < Shape::kTile * kChunks; i += 32) {
      const int position = tile * Shape::kTile + i / kChunks;
      if (position >= begin_ && position < end_) continue;
      *reinterpret_cast<uint4*>(target + Shape::Offset(i / kChunks, i % kChunks)) =
          make_uint4(0, 0, 0, 0);
    }
  }

 private:
  const Params& params_;
  const CUtensorMap& map_;
  const int run_;   // positions of a page and a tile that lie one after the other
  const int part_;  // heads of a page before the first
  const int32_t* pages_ = nullptr;
  int begin_ = 0, end_ = 0, head_ = 0;
  int page_ = -1, slot_ = 0;  // of the lane's run
};

template <typename Shape>
__device__ __forceinline__ void BringKeys(const PromptBlock<Shape>& block, const CUtensorMap& map) {
  using Barriers = PromptBarriers<Shape>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  PromptPages<Shape> pages(block.params, map, false);
  int tiles = 0;
  for (int number = 0;; ++number) {
    const PromptItem item = block.WaitForItem(number);
    if (item.sequence < 0) return;
    pages.StartItem(item);
    pages.FindPages(item.tile_begin);
    // The next item is drawn as late as possible, so that work stays balanced.
    const int draws_at = max(item.tile_begin, item.tile_end - kTilesToDraw);
    for (int tile = item.tile_begin; tile < item.tile_end; ++tile, ++tiles) {
      const int stage = tiles % Shape::kStages;
      BarrierWait(block.Barrier(Barriers::kKeysFree + stage), tiles / Shape::kStages % 2 ^ 1);
      pages.Copy(SharedAddress(block.Keys(stage)), block.Barrier(Barriers::kKeysFull + stage));
      if (tile == draws_at && lane == 0) BarrierArrive(block.Barrier(Barriers::kDraw));
      pages.FindPages(tile + 1);
    }
  }
}

template <typename Shape>
__device__ __forceinline__ void BringValues(const PromptBlock<Shape>& block,
                                            const CUtensorMap& map) {
  using Barriers = PromptBarriers<Shape>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  PromptPages<Shape> pages(block.params, map, true);
  int tiles = 0;
  int tiles_with_gaps = 0;
  for (int number = 0;; ++number) {
    const PromptItem item = block.WaitForItem(number);
    if (item.sequence < 0) return;
    pages.StartItem(item);
    pages.FindPages(item.tile_begin);
    for (int tile = item.tile_begin; tile < item.tile_end; ++tile, ++tiles) {
      const int stage = tiles % Shape::kStages;
      const uint32_t full = block.Barrier(Barriers::kValuesFull + stage);
      unsigned char* const target = block.Values(stage);
      BarrierWait(block.Barrier(Barriers::kValuesFree + stage), tiles / Shape::kStages % 2 ^ 1);
      if (pages.IsWhole(tile)) {
        pages.Copy(SharedAddress(target), full);
      } else {
        const uint32_t come = block.Barrier(Barriers::kValuesCome);
        pages.Copy(SharedAddress(target), come);
        BarrierWait(come, tiles_with_gaps++ % 2);
        pages.ClearGaps(tile, target);
        FenceForAsync();
        __syncwarp();
        if (lane == 0) BarrierArrive(full);
      }
      pages.FindPages(tile + 1);
    }
  }
}

// Draws the block's next item.
template <typename Shape>
__device__ __forceinline__ void DrawItem(const PromptBlock<Shape>& block, const int32_t* begins,
                                         int number) {
  using Barriers = PromptBarriers<Shape>;
  const int slot = number % 2;
  if (number > 0) BarrierWait(block.Barrier(Barriers::kDraw), (number - 1) % 2);
  BarrierWait(block.Barrier(Barriers::kItemFree + slot), number / 2 % 2 ^ 1);
  if (threadIdx.x % 32 == 0) {
    const int idx = number == 0
                        ? static_cast<int>(blockIdx.x)
                        : static_cast<int>(gridDim.x) + atomicAdd(&block.params.counters[0], 1);
    block.items[slot] = FindPromptItem<Shape>(block.params, begins, idx);
    BarrierArrive(block.Barrier(Barriers::kItemFull + slot));
  }
  __syncwarp();
}

// Brings the queries of all items but the first. Those have nothing to hide behind: see Begin.
template <typename Shape>
__device__ __forceinline__ void BringQueries(const PromptBlock<Shape>& block, const int32_t* begins,
                                             int part) {
  using Barriers = PromptBarriers<Shape>;
  constexpr int kPart = kPromptQueries / kQueryWarps;
  for (int number = 0;; ++number) {
    if (part == 0) DrawItem(block, begins, number);
    const PromptItem item = block.WaitForItem(number);
    if (item.sequence < 0) return;
    if (number == 0) continue;
    const int stage = number % Shape::kQueryStages;
    const int turn = number / Shape::kQueryStages;
    StreamPromptQueries<Shape>(
        block.params, item, part * kPart, (part + 1) * kPart, block.Staging(part),
        block.Queries(stage),
        [&] { BarrierWait(block.Barrier(Barriers::kQueriesFree + stage), turn % 2 ^ 1); });
    __syncwarp();
    if (threadIdx.x % 32 == 0) BarrierArrive(block.Barrier(Barriers::kQueriesFull + stage));
  }
}

// The two warpgroups' turns at the tensor cores.
__device__ __forceinline__ void WaitForTurn(int group) {
  asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory");
}
__device__ __forceinline__ void GiveTurn(int to_group) {
  asm volatile("bar.arrive %0, 256;" ::"r"(1 + to_group) : "memory");
}

template <typename Shape>
__device__ __forceinline__ PromptVisible VisibleOf(const Params& params, const PromptItem& item,
                                                   int group_query) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  PromptVisible visible;
  visible.window = params.window;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int query = group_query + thread / 32 * 16 + thread % 32 / 4 + 8 * i;
    visible.last[i] = query < item.num_queries ? item.position + params.RowOf(query) : -1;
  }
  const int last_query = min(group_query + 64, item.num_queries) - 1;
  visible.last_min = last_query < group_query + 63 ? -1 : item.position + params.RowOf(group_query);
  visible.last_max = item.position + params.RowOf(max(last_query, 0));
  return visible;
}

template <typename Shape>
__device__ __forceinline__ void WritePrompt(const Params& params, const PromptItem& item,
                                            int group_query, const float (&weight)[2],
                                            const float (&sum)[Shape::kDim / 2]) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int head_dim = params.args.layout.head_dim;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int query = group_query + thread / 32 * 16 + thread % 32 / 4 + 8 * i;
    if (query >= item.num_queries) continue;
    const int row = params.RowOf(query);
    const int head = item.kv_head * params.group + query - row * params.group;
    const int64_t begin = (int64_t{item.row_begin + row} * params.args.num_heads + head) * head_dim;
    const float inverse = __frcp_rn(weight[i]);
    DispatchOut(params.args, [&](auto* out) {
      using Out = std::remove_pointer_t<decltype(out)>;
#pragma unroll
      for (int j = 0; j < Shape::kDim / 8; ++j) {
        const int dim = 8 * j + thread % 4 * 2;
        const float values[2] = {Normalised(sum[4 * j + 2 * i], inverse),
                                 Normalised(sum[4 * j + 2 * i + 1], inverse)};
        if (dim >= head_dim) continue;
        if constexpr (sizeof(Out) == sizeof(float)) {
          out[begin + dim] = values[0], out[begin + dim + 1] = values[1];
        } else if (params.out_pairs) {
          *reinterpret_cast<uint32_t*>(out + begin + dim) = PackPair<Out>(values[0], values[1]);
        } else {
          out[begin + dim] = NarrowElement<Out>(values[0]);
          out[begin + dim + 1] = NarrowElement<Out>(values[1]);
        }
      }
    });
  }
}

// A warpgroup's queries of each of the block's items against all of their tiles. An item's first
// scores are multiplied beside the values of the last tile of the item before it.
template <typename Shape, bool kCaps>
class PromptGroup {
  using Barriers = PromptBarriers<Shape>;

 public:
  __device__ __forceinline__ PromptGroup(const PromptBlock<Shape>& block, int group)
      : block_(block), params_(block.params), group_(group) {}

  __device__ __forceinline__ void Run() {
    if (group_ == 1) GiveTurn(0);
    PromptItem item = block_.WaitForItem(0);
    if (item.sequence < 0) return;
    PromptState<Shape> state;
    state.Reset();
    PromptScores<Shape> scores;
    Begin(item, scores, state);
    for (int number = 0;; ++number) {
      for (int tile = item.tile_begin + 1; tile < item.tile_end; ++tile) {
        Step<true>(tile, number, scores, state, [] {});
      }
      Free(Barriers::kQueriesFree + number % Shape::kQueryStages);
      state.ReduceWeights();
      const float weight[2] = {state.weight[0], state.weight[1]};
      const int group_query = item.first_query + group_ * 64;
      const PromptItem next = block_.WaitForItem(number + 1);
      if (next.sequence < 0) {
        MultiplyLast(scores, state);
        return WritePrompt<Shape>(params_, item, group_query, weight, state.sum);
      }
      TakeQueries(number + 1);
      visible_ = VisibleOf<Shape>(params_, next, next.first_query + group_ * 64);
      state.ResetWeights();
      Step<false>(next.tile_begin, number + 1, scores, state,
                  [&] { WritePrompt<Shape>(params_, item, group_query, weight, state.sum); });
      item = next;
    }
  }

 private:
  // Waits for queries that other warps brought.
  __device__ __forceinline__ void TakeQueries(int number) {
    const int stage = number % Shape::kQueryStages;
    const int turn = number / Shape::kQueryStages - (stage == 0 ? 1 : 0);
    BarrierWait(block_.Barrier(Barriers::kQueriesFull + stage), turn % 2);
  }
  __device__ __forceinline__ uint32_t Queries(int number) const {
    return SharedAddress(block_.Queries(number % Shape::kQueryStages)) +
           group_ * Shape::kGroupQueryBytes;
  }
  __device__ __forceinline__ void Free(int barrier) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) BarrierArrive(block_.Barrier(barrier));
  }
  __device__ __forceinline__ void Weigh(int tile, float (&scores)[Shape::kTile / 2],
                                        PromptState<Shape>& state, float (&factor)[2]) const {
    if constexpr (kCaps) CapPromptScores(params_.cap_log2, params_.cap_exponent, scores);
    const int begin = tile * Shape::kTile;
    if (!visible_.All(begin, begin + Shape::kTile)) {
      MaskPrompt<Shape::kTile>(begin, visible_, scores);
    }
    WeighPrompt<Shape>(params_.scale_log2, scores, state, factor);
  }

  // Multiplies the first tile of the block's first item, after bringing its queries.
  __device__ __forceinline__ void Begin(const PromptItem& item, PromptScores<Shape>& scores,
                                        PromptState<Shape>& state) {
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32;
    const int begin = group_ * 64 + warp * 16;
    StorePromptQueries<Shape, 8>(params_, item, begin, begin + 16, block_.Queries(0));
    asm volatile("bar.sync %0, 128;" ::"r"(3 + group_) : "memory");
    visible_ = VisibleOf<Shape>(params_, item, item.first_query + group_ * 64);
    BarrierWait(block_.Barrier(Barriers::kKeysFull + stage()), parity());
    MultiplyPromptKeys<Shape>(Queries(0), SharedAddress(block_.Keys(stage())), scores.values);
    WgmmaWait<0>();
    WgmmaKeep(scores.values);
    Free(Barriers::kKeysFree + stage());
    float factor[2];
    Weigh(item.tile_begin, scores.values, state, factor);
    PackPromptWeights<Shape>(scores.values, scores.weights);
  }

  // Multiplies scores of a tile of item `number`, beside the values of the tile before. If kGoesOn
  // that is of the same item. Else it ends the item before, and `write` takes its sums.
  template <bool kGoesOn, typename Write>
  __device__ __forceinline__ void Step(int tile, int number, PromptScores<Shape>& scores,
                                       PromptState<Shape>& state, const Write& write) {
    const uint32_t values = SharedAddress(block_.Values(stage()));
    const int value_stage = stage(), value_parity = parity();
    ++tiles_;
    BarrierWait(block_.Barrier(Barriers::kKeysFull + stage()), parity());
    WaitForTurn(group_);
    MultiplyPromptKeys<Shape>(Queries(number), SharedAddress(block_.Keys(stage())), scores.values);
    BarrierWait(block_.Barrier(Barriers::kValuesFull + value_stage), value_parity);
    MultiplyPromptValues<Shape>(values, scores.weights, state.sum);
    GiveTurn(group_ ^ 1);
    WgmmaWait<1>();
    WgmmaKeep(scores.values);
    Free(Barriers::kKeysFree + stage());
    float factor[2];
    Weigh(tile, scores.values, state, factor);
    WgmmaWait<0>();
    WgmmaKeep(state.sum);
    Free(Barriers::kValuesFree + value_stage);
    if constexpr (kGoesOn) {
      ScalePrompt<Shape>(factor, state);
    } else {
      write();
      state.ResetSums();
    }
    PackPromptWeights<Shape>(scores.values, scores.weights);
  }

  __device__ __forceinline__ void MultiplyLast(const PromptScores<Shape>& scores,
                                               PromptState<Shape>& state) {
    BarrierWait(block_.Barrier(Barriers::kValuesFull + stage()), parity());
    MultiplyPromptValues<Shape>(SharedAddress(block_.Values(stage())), scores.weights, state.sum);
    WgmmaWait<0>();
    WgmmaKeep(state.sum);
    Free(Barriers::kValuesFree + stage());
  }

  __device__ __forceinline__ int stage() const { return tiles_ % Shape::kStages; }
  __device__ __forceinline__ int parity() const { return tiles_ / Shape::kStages % 2; }

  const PromptBlock<Shape>& block_;
  const Params& params_;
  const int group_;
  PromptVisible visible_;
  int tiles_ = 0;  // tiles of all items before the running one
};

template <typename Shape>
__device__ __forceinline__ void InitBarriers(const PromptBlock<Shape>& block) {
  using Barriers = PromptBarriers<Shape>;
  const auto init = [&](int first, int count, int arrivals) {
    for (int i = 0; i < count; ++i) BarrierInit(block.Barrier(first + i), arrivals);
  };
  init(Barriers::kKeysFull, Shape::kStages, 1);
  init(Barriers::kKeysFree, Shape::kStages, kConsumerWarps);
  init(Barriers::kValuesFull, Shape::kStages, 1);
  init(Barriers::kValuesFree, Shape::kStages, kConsumerWarps);
  init(Barriers::kValuesCome, 1, 1);
  init(Barriers::kQueriesFull, Shape::kQueryStages, kQueryWarps);
  init(Barriers::kQueriesFree, Shape::kQueryStages, kConsumerWarps);
  init(Barriers::kItemFull, 2, 1);
  init(Barriers::kItemFree, 2, kConsumerWarps + kQueryWarps + 2);
  init(Barriers::kDraw, 1, 1);
  BarrierInitDone();
}

}  // namespace graft::attention

#endif  // GRAFT_HOPPER
