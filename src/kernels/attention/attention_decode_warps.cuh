// Decode by warps: each takes one split of a sequence, one key head and up to 16 of its query
// heads, and streams keys and values through a ring of its own in shared memory, with loads always
// two half tiles ahead, across the end of one split into the next. Warps draw their work, the
// longest splits first, and none waits for another. Bound by memory: what is computed fills an
// eighth of the tensor cores' time.
#pragma once

#include "kernels/attention/attention_decode.cuh"
#include "kernels/common/cuda_launch.cuh"

namespace graft::attention {

// kSlots: of a warp's ring, the keys or the values of a tile in turn. An odd number, so that values
// follow where keys were. kDraws: there may be more items than warps. kCaps: scores.
template <int kDimOf, int kSlotsOf, bool kDrawsOf, bool kCapsOf>
struct WarpShape {
  static constexpr int kDim = kDimOf;
  static constexpr bool kDraws = kDrawsOf;
  static constexpr bool kCaps = kCapsOf;
  static constexpr int kSlots = kSlotsOf;
  static_assert(kSlots % 2 == 1);
  static constexpr int kSlotBytes = kTileTokens * kDim * 2;
  static constexpr int kRingBytes = kSlots * kSlotBytes;
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

// All items of the launch. Called by the first block_warps warps of every block. slots: the block's
// shared memory, a ring for each of them.
template <typename T, typename Shape, int kQueryTiles>
__device__ __forceinline__ void DecodeByWarps(const Params& params,
                                              const ItemList<kQueryTiles>& list, int block_warps,
                                              uint32_t slots) {
  constexpr int kDim = Shape::kDim;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int num_warps = static_cast<int>(gridDim.x) * block_warps;
  const uint32_t ring = slots + warp * Shape::kRingBytes;
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
  if (params.wait_late) SeeWhatPreviousSaw();  // the queries, which the sister waited for
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
    const auto visible = Visible<kQueryTiles>::OfRow(position, params.window);
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
    state.ReduceWeights();
    FinishItem(params, item, 0, state);
    if constexpr (!Shape::kDraws) break;
  }
  WaitForCopies<0>();
  if (params.wait_late) WaitForPrevious();
}

}  // namespace graft::attention
