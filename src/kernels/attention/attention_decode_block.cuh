// Decode by blocks, where there are few items: eight warps take one split of a sequence, one key
// head and up to 8 of its query heads. A warp has a tile of the split: it copies the tile's keys
// and values, multiplies the keys, and weighs the scores by the maxima that all warps have
// exchanged. Then it has 16 dimensions of the head: it multiplies the values of all tiles by the
// weights of all warps. So a split takes little longer than one of its tiles, where a lone warp
// takes all of them in turn. Each sum is formed in the order in which that warp would form it, and
// has the same bits.
#pragma once

#include <algorithm>

#include "kernels/attention/attention_decode.cuh"
#include "kernels/common/cuda_launch.cuh"

namespace graft::attention {

inline constexpr int kItemWarps = kSplitTokens / kTileTokens;
// What a block may have on a card of Hopper's memory and on one of an A100's. Less than the latter
// does not hold a split's keys.
inline constexpr int kLargeSharedBytes = 224 << 10;
inline constexpr int kSmallSharedBytes = 163 << 10;
// Heads of up to so many dimensions: a block's shared memory does not hold a split's keys of larger
// ones.
inline constexpr int kItemDim = 128;
static_assert(kKeyTiles == 4 && kItemDim / 16 <= kItemWarps);

// What the warps tell each other of an item's tiles. In shared memory.
template <int kQueryTiles>
struct Exchange {
  float maxima[kItemWarps][8 * kQueryTiles];  // of the tile's scores, scaled: one a query
  // Of lane (g, t) for queries 8n + 2t and the next, as the tensor cores take them: keys 16k + ...
  // of k 0 and 1, then of k 2 and 3.
  uint4 weights[kItemWarps][kQueryTiles][2][32];
  // The same weights before they were rounded, query 8n + 2t + j at [n][j]: keys 16k + g + 8i of k
  // 0 and 1, then of k 2 and 3, each (k, i) = (0, 0), (0, 1), (1, 0), (1, 1).
  float4 shares[kItemWarps][kQueryTiles][2][2][32];
  float totals[8 * kQueryTiles];  // weights of the split
};

// kIsLarge: for cards of kLargeSharedBytes.
template <bool kCapsOf, bool kIsLargeOf>
struct BlockShape {
  static constexpr int kDim = kItemDim;
  static constexpr int kQueryTiles = 1;
  static constexpr bool kCaps = kCapsOf;
  static constexpr bool kIsLarge = kIsLargeOf;
  static constexpr int kSharedBytesMax = kIsLarge ? kLargeSharedBytes : kSmallSharedBytes;
  static constexpr int kSlotBytes = kTileTokens * kDim * 2;
  static constexpr int kExchangeBytes = (sizeof(Exchange<kQueryTiles>) + 127) / 128 * 128;
  // The first so many tiles' values have room of their own. The others' follow where the tile's
  // keys were.
  static constexpr int kValueSlots =
      std::min(kItemWarps, (kSharedBytesMax - kExchangeBytes) / kSlotBytes - kItemWarps);
  static_assert(kValueSlots >= 0);
  static constexpr int kSharedBytes = kExchangeBytes + (kItemWarps + kValueSlots) * kSlotBytes;

  static __device__ __forceinline__ uint32_t KeySlot(uint32_t slots, int tile) {
    return slots + tile * kSlotBytes;
  }
  static __device__ __forceinline__ uint32_t ValueSlot(uint32_t slots, int tile) {
    return slots + (tile < kValueSlots ? kItemWarps + tile : tile) * kSlotBytes;
  }
};

// The online softmax over an item's tiles, of the queries 8n + 2t + j of one lane.
struct RunningMaximum {
  float value = -INFINITY;
  float finite = 0.0f;

  // Goes on to a tile, and returns what everything before it is multiplied by.
  __device__ __forceinline__ float Next(float of_tile) {
    const float before = value;
    value = fmaxf(before, of_tile);
    finite = value == -INFINITY ? 0.0f : value;
    return Exp2(__fsub_rn(before, finite));
  }
};

// The tile's maxima, of the scores scaled; -infinity where the item has no such tile.
template <int kQueryTiles>
__device__ __forceinline__ void TellMaxima(bool has_tile, float scale_log2,
                                           const float (&scores)[kKeyTiles][kQueryTiles][4],
                                           float (&maxima)[8 * kQueryTiles]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float maximum = scores[0][n][j];
#pragma unroll
      for (int k = 0; k < kKeyTiles; ++k) {
        maximum = fmaxf(maximum, fmaxf(scores[k][n][j], scores[k][n][2 + j]));
      }
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2) {
        maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffffu, maximum, distance));
      }
      if (lane < 4) {
        maxima[8 * n + 2 * lane + j] = has_tile ? __fmul_rn(maximum, scale_log2) : -INFINITY;
      }
    }
  }
}

// Scores become weights. finite: of the lane's queries, see RunningMaximum.
template <typename T, int kQueryTiles>
__device__ __forceinline__ void TellWeights(float scale_log2, const float (&finite)[kQueryTiles][2],
                                            float (&scores)[kKeyTiles][kQueryTiles][4],
                                            Exchange<kQueryTiles>& exchange) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
    for (int k = 0; k < kKeyTiles; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& score = scores[k][n][i];
        score = Exp2(__fmaf_rn(score, scale_log2, -finite[n][i % 2]));
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto& first = scores[2 * half][n];
      const auto& second = scores[2 * half + 1][n];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        exchange.shares[warp][n][j][half][lane] = {first[j], first[2 + j], second[j],
                                                   second[2 + j]};
      }
      exchange.weights[warp][n][half][lane] = {TransposeMatrix(PackPair<T>(first[0], first[1])),
                                               TransposeMatrix(PackPair<T>(first[2], first[3])),
                                               TransposeMatrix(PackPair<T>(second[0], second[1])),
                                               TransposeMatrix(PackPair<T>(second[2], second[3]))};
    }
  }
}

// Sums the weights of queries 8n + 2t + j over all tiles.
template <int kQueryTiles>
__device__ __forceinline__ void TellTotal(int n, int j, int num_tiles,
                                          Exchange<kQueryTiles>& exchange) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int query = 8 * n + lane % 4 * 2 + j;
  RunningMaximum maximum;
  float weight = 0.0f;
#pragma unroll 4
  for (int tile = 0; tile < num_tiles; ++tile) {
    weight = __fmul_rn(weight, maximum.Next(exchange.maxima[tile][query]));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 shares = exchange.shares[tile][n][j][half][lane];
      weight = __fadd_rn(weight, shares.x);
      weight = __fadd_rn(weight, shares.y);
      weight = __fadd_rn(weight, shares.z);
      weight = __fadd_rn(weight, shares.w);
    }
  }
#pragma unroll
  for (int distance = 4; distance < 32; distance *= 2) {
    weight = __fadd_rn(weight, __shfl_xor_sync(0xffffffffu, weight, distance));
  }
  if (lane < 4) exchange.totals[query] = weight;
}

// The values of all tiles by their weights, for 16 dimensions of the head: number d.
template <typename T, typename Shape>
__device__ __forceinline__ void MultiplyTiles(int d, int num_tiles, uint32_t slots,
                                              const Exchange<Shape::kQueryTiles>& exchange,
                                              SplitState<16, Shape::kQueryTiles>& state) {
  constexpr int kQueryTiles = Shape::kQueryTiles;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  RunningMaximum maxima[kQueryTiles][2];
  state.Reset();
#pragma unroll 2
  for (int tile = 0; tile < num_tiles; ++tile) {
    uint32_t weights[kKeyTiles][kQueryTiles][2];
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 of_keys = exchange.weights[tile][n][half][lane];
        weights[2 * half][n][0] = of_keys.x, weights[2 * half][n][1] = of_keys.y;
        weights[2 * half + 1][n][0] = of_keys.z, weights[2 * half + 1][n][1] = of_keys.w;
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float factor = maxima[n][j].Next(exchange.maxima[tile][8 * n + lane % 4 * 2 + j]);
        state.sum[0][n][j] = __fmul_rn(state.sum[0][n][j], factor);
        state.sum[0][n][2 + j] = __fmul_rn(state.sum[0][n][2 + j], factor);
      }
    }
    MultiplyValuesOf<T, Shape::kDim>(d, Shape::ValueSlot(slots, tile), weights, state.sum[0]);
  }
#pragma unroll
  for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) state.maximum[n][j] = maxima[n][j].value;
  }
}

// One item's tiles, of which this warp has one.
template <typename T, typename Shape>
class BlockItem {
  static constexpr int kDim = Shape::kDim;
  static constexpr int kQueryTiles = Shape::kQueryTiles;

 public:
  __device__ __forceinline__ BlockItem(const Params& params, const SplitItem& item, uint32_t slots,
                                       Exchange<kQueryTiles>& exchange)
      : params_(params),
        item_(item),
        slots_(slots),
        exchange_(exchange),
        warp_(static_cast<int>(threadIdx.x) / 32),
        tile_(item.split.tile_begin + warp_),
        has_tile_(item.exists && tile_ < item.split.tile_end),
        copier_(params.args, 0) {}

  // Whether the kernel in front may still be writing the tile's newest position.
  __device__ __forceinline__ bool IsNew() const {
    return has_tile_ && tile_ >= item_.split.position / kTileTokens;
  }

  // Starts the copies of the tile: two groups, keys and then values.
  __device__ __forceinline__ void Load() {
    const AttentionSplit& split = item_.split;
    if (has_tile_) {
      copier_.StartHead(params_.args.pages + split.page_begin, item_.kv_head,
                        FirstVisible(split.position, params_.window), split.position + 1);
      copier_.FindPages(tile_ * kTileTokens);
      copier_.CopyKeys(Shape::KeySlot(slots_, warp_));
    }
    CommitCopies();
    if (has_tile_ && warp_ < Shape::kValueSlots) CopyValues();
    CommitCopies();
  }

  // Called by all threads, once the row's queries are there.
  __device__ __forceinline__ void Run() {
    float scores[kKeyTiles][kQueryTiles][4] = {};
    if (has_tile_) MultiplyTile(scores);
    TellMaxima(has_tile_, params_.scale_log2, scores, exchange_.maxima[warp_]);
    __syncthreads();
    if (has_tile_) {
      const int query = static_cast<int>(threadIdx.x) % 4 * 2;
      RunningMaximum maxima[kQueryTiles][2];
      float finite[kQueryTiles][2];
#pragma unroll
      for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          for (int tile = 0; tile <= warp_; ++tile) {
            maxima[n][j].Next(exchange_.maxima[tile][8 * n + query + j]);
          }
          finite[n][j] = maxima[n][j].finite;
        }
      }
      TellWeights<T>(params_.scale_log2, finite, scores, exchange_);
    }
    WaitForCopies<0>();
    __syncthreads();
    const int num_tiles = item_.split.tile_end - item_.split.tile_begin;
    // The last warps, which smaller heads leave without dimensions.
    const int of_total = kItemWarps - 1 - warp_;
    if (of_total < 2 * kQueryTiles) TellTotal(of_total / 2, of_total % 2, num_tiles, exchange_);
    SplitState<16, kQueryTiles> state;
    if (warp_ < kDim / 16) MultiplyTiles<T, Shape>(warp_, num_tiles, slots_, exchange_, state);
    __syncthreads();
    if (warp_ < kDim / 16) Finish(state);
  }

 private:
  __device__ __forceinline__ void CopyValues() {
    copier_.CopyValues(Shape::ValueSlot(slots_, warp_));
  }

  __device__ __forceinline__ void MultiplyTile(float (&scores)[kKeyTiles][kQueryTiles][4]) {
    const int position = item_.split.position;
    const RegisterQueries<T, kDim, kQueryTiles> queries(params_, item_);
    WaitForCopies<1>();
    __syncwarp();
    MultiplyKeys<T, kDim>(Shape::KeySlot(slots_, warp_), queries, scores);
    if (Shape::kValueSlots < kItemWarps && warp_ >= Shape::kValueSlots) {
      __syncwarp();
      CopyValues();
      CommitCopies();
    }
    if constexpr (Shape::kCaps) CapScores(params_.cap_log2, params_.cap_exponent, scores);
    const auto visible = Visible<kQueryTiles>::OfRow(position, params_.window);
    if (!visible.All(tile_ * kTileTokens)) Mask(tile_ * kTileTokens, visible, scores);
  }

  __device__ __forceinline__ void Finish(SplitState<16, kQueryTiles>& state) const {
    const int query = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) state.weight[n][j] = exchange_.totals[8 * n + query + j];
    }
    FinishItem(params_, item_, warp_ * 16, state);
  }

  const Params& params_;
  const SplitItem& item_;
  const uint32_t slots_;
  Exchange<kQueryTiles>& exchange_;
  const int warp_;
  const int tile_;  // counted from position 0
  const bool has_tile_;
  TileCopier<T, kDim, kTileTokens> copier_;
};

// All items of the launch. Called by all threads of every block. shared: the block's memory.
template <typename T, typename Shape>
__device__ __forceinline__ void DecodeByBlocks(const Params& params,
                                               const ItemList<Shape::kQueryTiles>& list,
                                               unsigned char* shared) {
  auto& exchange = *reinterpret_cast<Exchange<Shape::kQueryTiles>*>(
      shared + (kItemWarps + Shape::kValueSlots) * Shape::kSlotBytes);
  const int count = list.count();
  if (params.wait_late) SeeWhatPreviousSaw();  // the queries, which the sister waited for
#pragma unroll 1
  for (int i = static_cast<int>(blockIdx.x);; i += static_cast<int>(gridDim.x)) {
    const SplitItem item = list.At(i, count);
    BlockItem<T, Shape> block_item(params, item, SharedAddress(shared), exchange);
    // Of this step the pool gets one position of a sequence: all before it may be read while the
    // kernel that writes it still runs.
    if (!params.wait_late && block_item.IsNew()) WaitForPrevious();
    block_item.Load();
    if (!params.wait_late) WaitForPrevious();
    if (params.splits_max > 1 || !params.args.next_starts_late) LetNextStart();
    if (item.exists) block_item.Run();
    if (i + static_cast<int>(gridDim.x) >= count) break;
  }
  WaitForCopies<0>();
  if (params.wait_late) WaitForPrevious();
}

}  // namespace graft::attention
