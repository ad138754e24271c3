// A block of the tensor cores' kernels for all models' attention (attention_backward_general.cu):
// its shared memory, how rows of a head come there, and how its sums leave.
#pragma once

#include "kernels/attention_backward/attention_backward_tiles.cuh"
#include "kernels/rope/rotate_pair.cuh"

namespace graft::attention_backward {

// What a block of a shape needs. kDim: a head's dimensions, or to what they are filled up.
// kRows: of a block and of a tile. kGroups: of warps that share the rows, each with warps for all
// of them. kStages: of the tiles that are brought. kBlocks: of a multiprocessor, as registers
// allow.
template <int kDimOf, int kRowsOf, int kGroupsOf, int kStagesOf, int kBlocksOf>
struct HeadShape {
  static constexpr int kDim = kDimOf;
  static constexpr int kRows = kRowsOf;
  static constexpr int kGroups = kGroupsOf;
  static constexpr int kStages = kStagesOf;
  static constexpr int kBlocks = kBlocksOf;
  static constexpr int kGroupThreads = kRows / 16 * 32;
  static constexpr int kThreads = kGroups * kGroupThreads;
  // A thread computes the addresses of so many copies side by side.
  static constexpr int kCopiesAtOnce = kRows * (kDim / 8) / kThreads;
  // Keys of a tile that one group takes in the queries' pass.
  static constexpr int kColumns = kRows / kGroups;
  // Over the tiles, when they are no longer needed: sums of two heads, of so many floats a row that
  // the eight rows of a warp's store lie in different banks.
  static constexpr int kRowFloats = kDim + 8;
  using Shared = attention_backward::Shared<kDim, kRows, kStages, 2 * kRows * kRowFloats * 4>;
  using Tile = attention_backward::Tile<kDim, kRows>;
  using Seen = SeenTiles<kRows>;
  // Behind the tiles: weights on their way to the other group.
  static constexpr int kWeights = Shared::kBytes;
  static constexpr int kBytes = kWeights + (kGroups - 1) * kRows * kRows * 4;
};

// Rows [first, first + Shape::kRows) of `num_rows`; zeros behind them and behind a head's
// dimensions.
template <typename Shape>
__device__ __forceinline__ void BringFilled(const Rows& rows, int first, int num_rows, int head_dim,
                                            uint32_t to) {
  constexpr int kPieces = Shape::kDim / 8;
  static_assert(Shape::kRows * kPieces % Shape::kThreads == 0);
#pragma unroll(Shape::kCopiesAtOnce)
  for (int i = 0; i < Shape::kRows * kPieces / Shape::kThreads; ++i) {
    const int unit = static_cast<int>(threadIdx.x) + i * Shape::kThreads;
    const int local = unit / kPieces;
    const int piece = unit % kPieces;
    const int row = first + local;
    const bool present = row < num_rows && piece * 8 < head_dim;
    CopyAsync(to + Shape::Tile::Offset(local, piece),
              rows.data + (present ? row * rows.stride + piece * 8 : 0), present);
  }
}

// This thread's rows of a block's are the one below and the one 8 further on.
template <typename Shape>
__device__ __forceinline__ int LocalRow() {
  return static_cast<int>(threadIdx.x) % Shape::kGroupThreads / 32 * 16 +
         static_cast<int>(threadIdx.x) % 32 / 4;
}
// The column of a product's sum i; its row is LocalRow + i % 4 / 2 * 8.
__device__ __forceinline__ int LocalColumn(int i) {
  return i / 4 * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2;
}

// What a block of either pass knows.
template <typename Shape>
struct Work {
  static constexpr int kDim = Shape::kDim;
  static constexpr int kRows = Shape::kRows;
  using Seen = typename Shape::Seen;

  const Params& params;
  const AttentionBackwardArgs& args;
  const Block block;
  const typename Shape::Shared shared;
  const int group;  // this thread's

  __device__ Work(const Params& params, bool from_last, unsigned char* bytes)
      : params(params),
        args(params.args),
        block(params.args, from_last, kRows),
        shared(bytes),
        group(static_cast<int>(threadIdx.x) / Shape::kGroupThreads) {}

  __device__ __forceinline__ void Bring(const Rows& rows, int first, int num_rows,
                                        uint32_t to) const {
    BringFilled<Shape>(rows, first, num_rows, args.head_dim, to);
  }
  __device__ __forceinline__ void Bring(const Seen& seen, int tile, uint32_t to) const {
    seen.WithTile(
        tile, [&](const Rows& rows, int first, int num_rows) { Bring(rows, first, num_rows, to); });
  }

  // Products q k become t of Params.
  template <int kCount>
  __device__ __forceinline__ void Cap(float (&scores)[kCount]) const {
    if (params.cap_exponent == 0.0f) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float u = Reciprocal(__fadd_rn(1.0f, Exp2(__fmul_rn(scores[i], params.cap_exponent))));
      scores[i] = __fmaf_rn(-2.0f, u, 1.0f);
    }
  }
  // The derivative at t of a capped score.
  __device__ __forceinline__ float Slope(float t) const {
    return __fmaf_rn(__fmul_rn(t, t), params.curve, 1.0f);
  }

  // Sums of two heads beside each other, which lie over the tiles: [2][kRows][kRowFloats].
  __device__ __forceinline__ float* SumsOf(int which) const {
    return reinterpret_cast<float*>(shared.bytes) + which * kRows * Shape::kRowFloats;
  }
  // Puts `sums` by `scale` there, or adds them to what is there.
  __device__ __forceinline__ void PutSums(int which, float scale, bool adds,
                                          const float (&sums)[kDim / 2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float* const row = SumsOf(which) + (LocalRow<Shape>() + half * 8) * Shape::kRowFloats;
#pragma unroll
      for (int tile = 0; tile < kDim / 8; ++tile) {
        auto* const at = reinterpret_cast<float2*>(row + tile * 8 + threadIdx.x % 4 * 2);
        float2 value = {sums[4 * tile + half * 2] * scale, sums[4 * tile + half * 2 + 1] * scale};
        if (adds) {
          const float2 before = *at;
          value = {before.x + value.x, before.y + value.y};
        }
        *at = value;
      }
    }
  }

  // Two dimensions of a row of the block, which a thread writes; its sums; and whether there is
  // such a row among `num_rows`.
  struct Pair {
    int row, dim;
    const float* sums;
    bool exists;
  };
  static constexpr int kPairs = kRows * kDim / 2;
  __device__ __forceinline__ Pair PairOf(int which, int num_rows, int unit) const {
    const int row = unit / (kDim / 2), dim = unit % (kDim / 2) * 2;
    return {row, dim, SumsOf(which) + row * Shape::kRowFloats,
            block.first + row < num_rows && dim < args.head_dim};
  }

  // Writes the block's rows of a head to d_qkv, the first 2 half dimensions turned back. The angles
  // of several pairs are asked for at a time, since no read passes a write.
  __device__ __forceinline__ void StoreHead(int which, int head, int half) const {
    constexpr int kAtOnce = 4;
    static_assert(kPairs % (kAtOnce * Shape::kThreads) == 0);
    for (int first = static_cast<int>(threadIdx.x); first < kPairs;
         first += kAtOnce * Shape::kThreads) {
      float2 angles[kAtOnce][2];
      float scales[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const Pair pair = PairOf(which, block.num_rows, first + i * Shape::kThreads);
        scales[i] =
            pair.exists ? QueryScaleOf(args, block.begin + block.first + pair.row, head) : 1.0f;
#pragma unroll
        for (int e = 0; e < 2; ++e) angles[i][e] = AngleOf(pair, pair.dim + e, half);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const Pair pair = PairOf(which, block.num_rows, first + i * Shape::kThreads);
        if (!pair.exists) continue;
        auto* const out = static_cast<Bfloat16*>(args.d_qkv) +
                          (block.begin + block.first + pair.row) * args.qkv_stride +
                          int64_t{head} * args.head_dim + pair.dim;
        *reinterpret_cast<uint32_t*>(out) =
            PackPair<Bfloat16>(Turned(pair.sums, pair.dim, half, angles[i][0]) * scales[i],
                               Turned(pair.sums, pair.dim + 1, half, angles[i][1]) * scales[i]);
      }
    }
  }
  // The two dimensions that turn together, of which `dim` is one, and their angle's number.
  struct Turn {
    int low, high, angle;
  };
  __device__ __forceinline__ Turn TurnOf(int dim, int half) const {
    if (args.interleaved) return {dim & ~1, dim | 1, dim / 2};
    const int first = dim < half ? dim : dim - half;
    return {first, first + half, first};
  }
  // The cosine and the sine by which a dimension turns.
  __device__ __forceinline__ float2 AngleOf(const Pair& pair, int dim, int half) const {
    if (!pair.exists || dim >= 2 * half) return {1.0f, 0.0f};
    const int64_t angle = int64_t{args.positions[block.begin + block.first + pair.row]} * half +
                          TurnOf(dim, half).angle;
    return {args.cos[angle], args.back_sin[angle]};
  }
  __device__ __forceinline__ float Turned(const float* sums, int dim, int half,
                                          const float2& angle) const {
    if (dim >= 2 * half) return sums[dim];
    const Turn turn = TurnOf(dim, half);
    float low = sums[turn.low], high = sums[turn.high];
    RotatePair(angle.x, angle.y, &low, &high);
    return dim == turn.low ? low : high;
  }

  // Writes the block's positions of a prefix's keys or, num_kv_heads heads further on, values.
  __device__ __forceinline__ void StorePrefixHead(int which, int head) const {
    for (int unit = static_cast<int>(threadIdx.x); unit < kPairs; unit += Shape::kThreads) {
      const Pair pair = PairOf(which, block.prefix.num_tokens, unit);
      if (!pair.exists) continue;
      float* const out =
          block.prefix.d_keys_values + pair.dim +
          (int64_t{2} * args.num_kv_heads * (block.first + pair.row) + head) * args.head_dim;
      *reinterpret_cast<float2*>(out) = {pair.sums[pair.dim], pair.sums[pair.dim + 1]};
    }
  }
};

}  // namespace graft::attention_backward
