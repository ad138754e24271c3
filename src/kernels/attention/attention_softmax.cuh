// The arithmetic of attention on tensor cores, one warp: up to 8 kQueryTiles queries against the
// keys and values of a tile, in the one order that decode and prefill share, so that a row's bits
// do not depend on how it was computed.
//
// Positions fall into tiles of kTileTokens and splits of kSplitTokens, both counted from position 0
// whatever is visible. Inside a split the softmax is online, tile by tile; splits are independent
// and folded into one another in ascending order. A tile or split that a query does not see changes
// nothing, so that it may be skipped. All is computed transposed (keys and dimensions are rows,
// queries columns): eight queries fill a matrix instruction.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_tile.h"
#include "kernels/common/cuda_copy.cuh"
#include "kernels/common/cuda_math.cuh"
#include "kernels/common/cuda_mma.cuh"
#include "kernels/common/cuda_shared.cuh"

namespace graft::attention {

inline constexpr int kTileTokens = kAttentionTileTokens;
inline constexpr int kSplitTokens = kAttentionSplitTokens;
static_assert(kSplitTokens % kTileTokens == 0);
inline constexpr int kKeyTiles = kTileTokens / 16;

// Shared memory of keys, values or queries: rows of kDim elements. Chunks of 16 bytes within a row
// are exchanged by the row's number, so that the same chunk of eight rows touches all banks.
template <int kDim>
__device__ __forceinline__ uint32_t ChunkOffset(int row, int chunk) {
  return static_cast<uint32_t>(row * kDim * 2 + ((chunk ^ (row & 7)) * 16));
}

// The state of one split. Lane (g, t) has the queries 8n + 2t + j. Their dimensions 16d + g + 8i
// are in sum[d][n][2i + j].
template <int kDim, int kQueryTiles>
struct SplitState {
  float sum[kDim / 16][kQueryTiles][4];
  float maximum[kQueryTiles][2];  // of the scores times log2(e) / sqrt(head_dim)
  float weight[kQueryTiles][2];   // this lane's share until ReduceWeights

  __device__ __forceinline__ void Reset() {
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) maximum[n][j] = -INFINITY, weight[n][j] = 0.0f;
#pragma unroll
      for (int d = 0; d < kDim / 16; ++d) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[d][n][i] = 0.0f;
      }
    }
  }

  __device__ __forceinline__ void ReduceWeights() {
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int distance = 4; distance < 32; distance *= 2) {
          weight[n][j] =
              __fadd_rn(weight[n][j], __shfl_xor_sync(0xffffffffu, weight[n][j], distance));
        }
      }
    }
  }
};

// Joins what a query has seen (total) and what the next split adds (split): every value v becomes
// Fold(v of the total, v of the split).
struct FoldFactors {
  float total;
  float split;

  // Leaves the new maximum in `total_maximum`.
  __device__ __forceinline__ FoldFactors(float& total_maximum, float split_maximum) {
    const float maximum = fmaxf(total_maximum, split_maximum);
    const float finite = maximum == -INFINITY ? 0.0f : maximum;
    total = Exp2(__fsub_rn(total_maximum, finite));
    split = Exp2(__fsub_rn(split_maximum, finite));
    total_maximum = maximum;
  }
  __device__ __forceinline__ float Fold(float of_total, float of_split) const {
    return __fmaf_rn(of_total, total, __fmul_rn(of_split, split));
  }
};

// The result: a sum times the inverse of its weights. It is never -0, because that sign would tell
// how many splits there were.
__device__ __forceinline__ float Normalised(float sum, float inverse) {
  return __fadd_rn(__fmul_rn(sum, inverse), 0.0f);
}

// scores[k][n] at [2i + j] has the keys 16k + g + 8i and the queries 8n + 2t + j.
template <typename T, int kDim, int kQueryTiles, typename Queries>
__device__ __forceinline__ void MultiplyKeys(uint32_t keys, const Queries& queries,
                                             float (&scores)[kKeyTiles][kQueryTiles][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t first = keys + (lane % 16) * kDim * 2;
  const uint32_t swizzle = ((lane / 16) ^ (lane % 8)) * 16;
#pragma unroll
  for (int k = 0; k < kKeyTiles; ++k) {
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[k][n][i] = 0.0f;
    }
  }
#pragma unroll
  for (int d = 0; d < kDim / 16; ++d) {
    uint32_t query[kQueryTiles][2];
    queries.Load(d, query);
#pragma unroll
    for (int k = 0; k < kKeyTiles; ++k) {
      uint32_t key[4];
      LoadMatrices(first + k * 16 * kDim * 2 + (swizzle ^ (d * 32)), key);
#pragma unroll
      for (int n = 0; n < kQueryTiles; ++n) {
        MultiplyAdd<T>(scores[k][n], key, query[n][0], query[n][1]);
      }
    }
  }
}

// state.sum += values x weights.
template <typename T, int kDim, int kQueryTiles>
__device__ __forceinline__ void MultiplyValues(uint32_t values,
                                               const uint32_t (&weights)[kKeyTiles][kQueryTiles][2],
                                               SplitState<kDim, kQueryTiles>& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t first = values + (lane / 16 * 8 + lane % 8) * kDim * 2;
  const uint32_t swizzle = ((lane / 8 % 2) ^ (lane % 8)) * 16;
#pragma unroll
  for (int k = 0; k < kKeyTiles; ++k) {
#pragma unroll
    for (int d = 0; d < kDim / 16; ++d) {
      uint32_t value[4];
      LoadMatricesTransposed(first + k * 16 * kDim * 2 + (swizzle ^ (d * 32)), value);
#pragma unroll
      for (int n = 0; n < kQueryTiles; ++n) {
        MultiplyAdd<T>(state.sum[d][n], value, weights[k][n][0], weights[k][n][1]);
      }
    }
  }
}

// sum += values x weights, for the dimensions 16 d to 16 d + 15.
template <typename T, int kDim, int kQueryTiles>
__device__ __forceinline__ void MultiplyValuesOf(
    int d, uint32_t values, const uint32_t (&weights)[kKeyTiles][kQueryTiles][2],
    float (&sum)[kQueryTiles][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t first = values + (lane / 16 * 8 + lane % 8) * kDim * 2;
  const uint32_t swizzle = ((lane / 8 % 2) ^ (lane % 8)) * 16;
#pragma unroll
  for (int k = 0; k < kKeyTiles; ++k) {
    uint32_t value[4];
    LoadMatricesTransposed(first + k * 16 * kDim * 2 + (swizzle ^ (d * 32)), value);
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
      MultiplyAdd<T>(sum[n], value, weights[k][n][0], weights[k][n][1]);
    }
  }
}

// Which keys the lane's queries see: those at positions in (last - window, last].
template <int kQueryTiles>
struct Visible {
  int last[kQueryTiles][2];  // -1: no such query
  int window;                // a very large number for all
  // Over the warp's queries.
  int last_min, last_max;

  // All queries are heads of one row.
  static __device__ __forceinline__ Visible OfRow(int position, int window) {
    Visible visible;
    visible.window = window;
    visible.last_min = visible.last_max = position;
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) visible.last[n][0] = visible.last[n][1] = position;
    return visible;
  }

  // Whether a query of the warp sees any key of the tile that starts at `begin`.
  __device__ __forceinline__ bool Any(int begin) const {
    return begin <= last_max && begin + kTileTokens - 1 > last_min - window;
  }
  __device__ __forceinline__ bool All(int begin) const {
    return begin + kTileTokens - 1 <= last_min && begin > last_max - window;
  }
};

// Hides the keys that a query does not see.
template <int kQueryTiles>
__device__ __forceinline__ void Mask(int tile_begin, const Visible<kQueryTiles>& visible,
                                     float (&scores)[kKeyTiles][kQueryTiles][4]) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
#pragma unroll
  for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int last = visible.last[n][j];
      const int before = last - visible.window;
#pragma unroll
      for (int k = 0; k < kKeyTiles; ++k) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int position = tile_begin + 16 * k + 8 * i + g;
          if (position > last || position <= before) scores[k][n][2 * i + j] = -INFINITY;
        }
      }
    }
  }
}

// Products s of queries and keys become capped scores, as exponents of 2: c tanh(scale s / c) times
// log2(e). cap = c log2(e) and exponent = 2 log2(e) scale / c.
template <int kQueryTiles>
__device__ __forceinline__ void CapScores(float cap, float exponent,
                                          float (&scores)[kKeyTiles][kQueryTiles][4]) {
#pragma unroll
  for (int k = 0; k < kKeyTiles; ++k) {
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float reciprocal =
            Reciprocal(__fadd_rn(1.0f, Exp2(__fmul_rn(scores[k][n][i], exponent))));
        scores[k][n][i] = __fmaf_rn(-2.0f * cap, reciprocal, cap);
      }
    }
  }
}

// One step of the online softmax: scores become weights, rounded to T as the tensor cores take
// them; what the state holds is scaled to the new maxima.
template <typename T, int kDim, int kQueryTiles>
__device__ __forceinline__ void WeighScores(float scale_log2,
                                            float (&scores)[kKeyTiles][kQueryTiles][4],
                                            SplitState<kDim, kQueryTiles>& state,
                                            uint32_t (&weights)[kKeyTiles][kQueryTiles][2]) {
  float factor[kQueryTiles][2];
  bool is_scaled = false;
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
      maximum = fmaxf(state.maximum[n][j], __fmul_rn(maximum, scale_log2));
      const float finite = maximum == -INFINITY ? 0.0f : maximum;
      factor[n][j] = Exp2(__fsub_rn(state.maximum[n][j], finite));
      is_scaled |= factor[n][j] != 1.0f;
      state.maximum[n][j] = maximum;
      float weight = __fmul_rn(state.weight[n][j], factor[n][j]);
#pragma unroll
      for (int k = 0; k < kKeyTiles; ++k) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[k][n][2 * i + j];
          score = Exp2(__fmaf_rn(score, scale_log2, -finite));
          weight = __fadd_rn(weight, score);
        }
      }
      state.weight[n][j] = weight;
    }
#pragma unroll
    for (int k = 0; k < kKeyTiles; ++k) {
      weights[k][n][0] = TransposeMatrix(PackPair<T>(scores[k][n][0], scores[k][n][1]));
      weights[k][n][1] = TransposeMatrix(PackPair<T>(scores[k][n][2], scores[k][n][3]));
    }
  }
  if (!__any_sync(0xffffffffu, is_scaled)) return;
#pragma unroll
  for (int d = 0; d < kDim / 16; ++d) {
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        state.sum[d][n][i] = __fmul_rn(state.sum[d][n][i], factor[n][i % 2]);
      }
    }
  }
}

}  // namespace graft::attention
