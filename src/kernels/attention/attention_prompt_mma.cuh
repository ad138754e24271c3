// A warp's share of prompt attention without Hopper's instructions: 16 or 32 queries against the
// keys and values of one tile, after FlashAttention-2 (arXiv 2307.08691). Scores are queries x keys
// and stay in registers, where they become the operand that multiplies the values. A thread has of
// each 16 queries two rows, lane / 4 + 8 i, and of those the columns 8 j + 2 (lane % 4) + {0, 1} at
// [j][2 i + {0, 1}]. What is computed of a query does not depend on the row that it lies in, on the
// queries beside it, nor on how many of them a warp has.
#pragma once

#include "kernels/attention/attention_prompt_mma_shape.cuh"
#include "kernels/common/cuda_mma.cuh"

namespace graft::attention {

template <typename Shape>
struct MmaState {
  float sum[Shape::kRowTiles][Shape::kDim / 8][4];
  float maximum[Shape::kRowTiles][2];  // of the scores times log2(e) / sqrt(head_dim)
  float weight[Shape::kRowTiles][2];   // this lane's share until ReduceWeights

  __device__ __forceinline__ void Reset() {
#pragma unroll
    for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
      for (int j = 0; j < Shape::kDim / 8; ++j) {
#pragma unroll
        for (float& value : sum[m][j]) value = 0.0f;
      }
      maximum[m][0] = maximum[m][1] = -INFINITY;
      weight[m][0] = weight[m][1] = 0.0f;
    }
  }
  __device__ __forceinline__ void ReduceWeights() {
#pragma unroll
    for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int distance = 1; distance < 4; distance *= 2) {
          weight[m][i] =
              __fadd_rn(weight[m][i], __shfl_xor_sync(0xffffffffu, weight[m][i], distance));
        }
      }
    }
  }
};

// A tile's scores, and in the end its weights.
template <typename Shape>
using MmaScores = float[Shape::kRowTiles][Shape::kTile / 8][4];
// As the tensor cores take them: those of 16 keys each.
template <typename Shape>
using MmaWeights = uint32_t[Shape::kRowTiles][Shape::kTile / 16][4];

// Which positions a warp's queries see: each those in (last - window, last].
template <typename Shape>
struct MmaVisible {
  // Over the warp's queries. last_min is -1 where one of them is missing, last_max where all are.
  int last_min, last_max;
  int first;  // the last position of the warp's first query

  // warp_query: the warp's first, in the numbers of the item.
  __device__ __forceinline__ MmaVisible(const Params& params, const PromptItem& item,
                                        int warp_query) {
    first = item.position + params.RowOf(warp_query);
    const int end = warp_query + Shape::kWarpQueries;
    const int last_query = min(end, item.num_queries) - 1;
    last_min = end <= item.num_queries ? first : -1;
    last_max = last_query < warp_query ? -1 : item.position + params.RowOf(last_query);
  }
  // Whether a query of the warp sees any key of the tile that starts at `begin`.
  __device__ __forceinline__ bool Any(int begin, int window) const {
    return begin <= last_max && begin + Shape::kTile - 1 > first - window;
  }
  __device__ __forceinline__ bool All(int begin, int window) const {
    return begin + Shape::kTile - 1 <= last_min && begin > last_max - window;
  }
};

// `queries` gives the operands of 16 dimensions each. keys: a slot's address.
template <typename Shape, typename Queries>
__device__ __forceinline__ void MultiplyMmaKeys(const Queries& queries, uint32_t keys,
                                                MmaScores<Shape>& scores) {
  constexpr int kKeyPairs = Shape::kTile / 16;
  constexpr int kParts = Shape::kDim / 16;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = lane / 16 * 8 + lane % 8;
  const uint32_t first = keys + row * Shape::kRowBytes;
  const uint32_t swizzle = ((lane / 8 % 2) ^ Shape::Swizzle(row)) * 16;
  // Fragments are asked for one step before they are multiplied.
  uint32_t query[2][Shape::kRowTiles][4];
  uint32_t key[2][4];
  const auto load_key = [&](int step, uint32_t(&to)[4]) {
    LoadMatrices(
        first + step % kKeyPairs * 16 * Shape::kRowBytes + (swizzle ^ (step / kKeyPairs * 32)), to);
  };
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
    for (int j = 0; j < Shape::kTile / 8; ++j) {
#pragma unroll
      for (float& score : scores[m][j]) score = 0.0f;
    }
  }
  queries.Load(0, query[0]);
  load_key(0, key[0]);
#pragma unroll
  for (int k = 0; k < kParts; ++k) {
    if (k + 1 < kParts) queries.Load(k + 1, query[(k + 1) % 2]);
#pragma unroll
    for (int n = 0; n < kKeyPairs; ++n) {
      const int step = k * kKeyPairs + n;
      if (step + 1 < kParts * kKeyPairs) load_key(step + 1, key[(step + 1) % 2]);
      const uint32_t(&of_keys)[4] = key[step % 2];
#pragma unroll
      for (int m = 0; m < Shape::kRowTiles; ++m) {
        MultiplyAdd<typename Shape::T>(scores[m][2 * n], query[k % 2][m], of_keys[0], of_keys[1]);
        MultiplyAdd<typename Shape::T>(scores[m][2 * n + 1], query[k % 2][m], of_keys[2],
                                       of_keys[3]);
      }
    }
  }
}

// state.sum += weights x values.
template <typename Shape>
__device__ __forceinline__ void MultiplyMmaValues(const MmaWeights<Shape>& weights, uint32_t values,
                                                  MmaState<Shape>& state) {
  constexpr int kParts = Shape::kDim / 16;
  constexpr int kSteps = Shape::kTile / 16 * kParts;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = lane % 16;
  const uint32_t first = values + row * Shape::kRowBytes;
  const uint32_t swizzle = ((lane / 16) ^ Shape::Swizzle(row)) * 16;
  uint32_t value[2][4];
  const auto load = [&](int step, uint32_t(&to)[4]) {
    LoadMatricesTransposed(
        first + step / kParts * 16 * Shape::kRowBytes + (swizzle ^ (step % kParts * 32)), to);
  };
  load(0, value[0]);
#pragma unroll
  for (int k = 0; k < Shape::kTile / 16; ++k) {
#pragma unroll
    for (int d = 0; d < kParts; ++d) {
      const int step = k * kParts + d;
      if (step + 1 < kSteps) load(step + 1, value[(step + 1) % 2]);
      const uint32_t(&of_dims)[4] = value[step % 2];
#pragma unroll
      for (int m = 0; m < Shape::kRowTiles; ++m) {
        MultiplyAdd<typename Shape::T>(state.sum[m][2 * d], weights[m][k], of_dims[0], of_dims[1]);
        MultiplyAdd<typename Shape::T>(state.sum[m][2 * d + 1], weights[m][k], of_dims[2],
                                       of_dims[3]);
      }
    }
  }
}

// Hides the keys that a query does not see. Few tiles need it, so that registers do not hold where
// each query stands.
template <typename Shape>
__device__ __forceinline__ void MaskMma(const Params& params, const PromptItem& item,
                                        int warp_query, int begin, MmaScores<Shape>& scores) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = begin + lane % 4 * 2;
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int query = warp_query + 16 * m + lane / 4 + 8 * i;
      const int last = query < item.num_queries ? item.position + params.RowOf(query) : -1;
      const int before = last - params.window;
#pragma unroll
      for (int j = 0; j < Shape::kTile / 8; ++j) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int position = first + 8 * j + c;
          if (position > last || position <= before) scores[m][j][2 * i + c] = -INFINITY;
        }
      }
    }
  }
}

// See CapScores.
template <typename Shape>
__device__ __forceinline__ void CapMma(float cap, float exponent, MmaScores<Shape>& scores) {
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
    for (int j = 0; j < Shape::kTile / 8; ++j) {
#pragma unroll
      for (float& score : scores[m][j]) {
        const float reciprocal = Reciprocal(__fadd_rn(1.0f, Exp2(__fmul_rn(score, exponent))));
        score = __fmaf_rn(-2.0f * cap, reciprocal, cap);
      }
    }
  }
}

// One row's step of the online softmax: its scores become weights in float. Returns what the row's
// sums must be multiplied by.
template <typename Shape>
__device__ __forceinline__ float WeighMmaRow(float scale_log2, int i,
                                             float (&scores)[Shape::kTile / 8][4],
                                             float& row_maximum, float& row_weight) {
  float maximum = fmaxf(scores[0][2 * i], scores[0][2 * i + 1]);
#pragma unroll
  for (int j = 1; j < Shape::kTile / 8; ++j) {
    maximum = fmaxf(maximum, fmaxf(scores[j][2 * i], scores[j][2 * i + 1]));
  }
  maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffffu, maximum, 1));
  maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffffu, maximum, 2));
  maximum = fmaxf(row_maximum, __fmul_rn(maximum, scale_log2));
  const float finite = maximum == -INFINITY ? 0.0f : maximum;
  const float factor = Exp2(__fsub_rn(row_maximum, finite));
  row_maximum = maximum;
  float weight[2] = {__fmul_rn(row_weight, factor), 0.0f};
#pragma unroll
  for (int j = 0; j < Shape::kTile / 8; ++j) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      float& score = scores[j][2 * i + c];
      score = Exp2(__fmaf_rn(score, scale_log2, -finite));
      weight[c] = __fadd_rn(weight[c], score);
    }
  }
  row_weight = __fadd_rn(weight[0], weight[1]);
  return factor;
}

// A step of the online softmax for all rows: scores become weights, rounded to T; what the state
// holds is scaled to the new maxima, where one has changed.
template <typename Shape>
__device__ __forceinline__ void WeighMma(float scale_log2, MmaScores<Shape>& scores,
                                         MmaState<Shape>& state, MmaWeights<Shape>& weights) {
  float factor[Shape::kRowTiles][2];
  bool is_scaled = false;
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      factor[m][i] =
          WeighMmaRow<Shape>(scale_log2, i, scores[m], state.maximum[m][i], state.weight[m][i]);
      is_scaled |= factor[m][i] != 1.0f;
    }
#pragma unroll
    for (int k = 0; k < Shape::kTile / 16; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = &scores[m][2 * k + i / 2][i % 2 * 2];
        weights[m][k][i] = PackPair<typename Shape::T>(pair[0], pair[1]);
      }
    }
  }
  // A sum times 1 is the sum: whether others of the warp are scaled changes no bit.
  if (!__any_sync(0xffffffffu, is_scaled)) return;
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
    for (int j = 0; j < Shape::kDim / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        state.sum[m][j][i] = __fmul_rn(state.sum[m][j][i], factor[m][i / 2]);
      }
    }
  }
}

}  // namespace graft::attention
