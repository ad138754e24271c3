// A warpgroup's share of prompt attention: 64 queries against the keys and values of one tile, by
// Hopper's matrix instruction. Scores are queries x keys. A thread has two rows of them, row(i) =
// 16 (warp of the group) + lane / 4 + 8 i. In each it has the columns 8 j + 2 (lane % 4) + {0, 1},
// at [4 j + 2 i + {0, 1}]. A query's results depend neither on its row nor on its neighbours.
#pragma once

#include "kernels/attention/attention_prompt_shape.cuh"
#include "kernels/common/cuda_tma.cuh"

#if defined(GRAFT_HOPPER)
#include "kernels/common/cuda_wgmma.cuh"

namespace graft::attention {

// Describes an operand of 16-byte pieces that are swizzled in rows of 128 bytes. Eight rows take 1
// KiB, on a border of it, and groups of eight lie group_bytes apart. In an operand by rows of k, 64
// columns lie atom_bytes before the next 64.
__device__ __forceinline__ uint64_t SwizzledOperand(uint32_t address, uint32_t group_bytes,
                                                    uint32_t atom_bytes) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  return kSwizzle128 | uint64_t{group_bytes >> 4} << 32 | uint64_t{atom_bytes >> 4} << 16 |
         ((address & 0x3ffffu) >> 4);
}

// sum[64, N] += a[64, 16] B[16, N]. a is in registers, laid out as the sums of scores are. B lies
// by rows.
template <DType kType, int kN>
struct WeightsWgmma;

#define GRAFT_WEIGHTS_WGMMA(N, DTYPE, TEXT, A, B)                                         \
  template <>                                                                             \
  struct WeightsWgmma<DTYPE, N> {                                                         \
    static __device__ __forceinline__ void Multiply(const uint32_t (&a)[4], uint64_t b,   \
                                                    float (&sum)[N / 2]) {                \
      asm volatile(                                                                       \
          "{.reg .pred p; setp.eq.b32 p, 0, 0;\n"                                         \
          "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TEXT "." TEXT " {" GRAFT_T##N \
          "}, {" A "}, " B ", p, 1, 1, 1;}"                                               \
          : GRAFT_F##N                                                                    \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                          \
    }                                                                                     \
  };
#define GRAFT_WEIGHTS_WGMMA_OF(N, A, B)              \
  GRAFT_WEIGHTS_WGMMA(N, DType::kBF16, "bf16", A, B) \
  GRAFT_WEIGHTS_WGMMA(N, DType::kF16, "f16", A, B)

GRAFT_WEIGHTS_WGMMA_OF(64, "%32, %33, %34, %35", "%36")
GRAFT_WEIGHTS_WGMMA_OF(96, "%48, %49, %50, %51", "%52")
GRAFT_WEIGHTS_WGMMA_OF(128, "%64, %65, %66, %67", "%68")
GRAFT_WEIGHTS_WGMMA_OF(256, "%128, %129, %130, %131", "%132")

#undef GRAFT_WEIGHTS_WGMMA_OF
#undef GRAFT_WEIGHTS_WGMMA

// The state of a thread's two rows.
template <typename Shape>
struct PromptState {
  float sum[Shape::kDim / 2];
  float maximum[2];  // of the scores times log2(e) / sqrt(head_dim)
  float weight[2];   // this lane's share until ReduceWeights

  __device__ __forceinline__ void Reset() {
    ResetSums();
    ResetWeights();
  }
  __device__ __forceinline__ void ResetSums() {
#pragma unroll
    for (int i = 0; i < Shape::kDim / 2; ++i) sum[i] = 0.0f;
  }
  __device__ __forceinline__ void ResetWeights() {
    maximum[0] = maximum[1] = -INFINITY;
    weight[0] = weight[1] = 0.0f;
  }
  __device__ __forceinline__ void ReduceWeights() {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int distance = 1; distance < 4; distance *= 2) {
        weight[i] = __fadd_rn(weight[i], __shfl_xor_sync(0xffffffffu, weight[i], distance));
      }
    }
  }
};

template <typename Shape>
struct PromptScores {
  float values[Shape::kTile / 2];          // of the running tile; weights in the end
  uint32_t weights[Shape::kTile / 16][4];  // of the tile before it, packed
};

// Which positions the two rows see: (last - window, last].
struct PromptVisible {
  int last[2];  // -1: no such query
  int window;
  // Over the warpgroup's queries.
  int last_min, last_max;

  __device__ __forceinline__ bool All(int begin, int end) const {
    return end - 1 <= last_min && begin > last_max - window;
  }
};

template <typename Shape>
__device__ __forceinline__ void MultiplyPromptKeys(uint32_t queries, uint32_t keys,
                                                   float (&scores)[Shape::kTile / 2]) {
  WgmmaFence();
#pragma unroll
  for (int k = 0; k < Shape::kDim / 16; ++k) {
    const int atom = k / 4, piece = k % 4 * 32;
    Wgmma<Shape::kType, Shape::kTile>::Multiply(
        SwizzledOperand(queries + atom * Shape::kQueryAtomBytes + piece, 1024, 16),
        SwizzledOperand(keys + atom * Shape::kAtomBytes + piece, Shape::kGroupBytes, 16), k > 0,
        scores);
  }
  WgmmaCommit();
}

template <typename Shape>
__device__ __forceinline__ void MultiplyPromptValues(
    uint32_t values, const uint32_t (&weights)[Shape::kTile / 16][4],
    float (&sum)[Shape::kDim / 2]) {
  WgmmaFence();
#pragma unroll
  for (int k = 0; k < Shape::kTile / 16; ++k) {
    WeightsWgmma<Shape::kType, Shape::kDim>::Multiply(
        weights[k],
        SwizzledOperand(values + k * 2 * Shape::kGroupBytes, Shape::kGroupBytes, Shape::kAtomBytes),
        sum);
  }
  WgmmaCommit();
}

template <int kTile>
__device__ __forceinline__ void MaskPrompt(int begin, const PromptVisible& visible,
                                           float (&scores)[kTile / 2]) {
  const int first = begin + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int last = visible.last[i];
    const int before = last - visible.window;
#pragma unroll
    for (int j = 0; j < kTile / 8; ++j) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int position = first + 8 * j + c;
        if (position > last || position <= before) scores[4 * j + 2 * i + c] = -INFINITY;
      }
    }
  }
}

// See CapScores.
template <int kCount>
__device__ __forceinline__ void CapPromptScores(float cap, float exponent,
                                                float (&scores)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float reciprocal = Reciprocal(__fadd_rn(1.0f, Exp2(__fmul_rn(scores[i], exponent))));
    scores[i] = __fmaf_rn(-2.0f * cap, reciprocal, cap);
  }
}

// One step of the online softmax: scores become weights in float. `factor` gets what the sums must
// be multiplied by.
template <typename Shape>
__device__ __forceinline__ void WeighPrompt(float scale_log2, float (&scores)[Shape::kTile / 2],
                                            PromptState<Shape>& state, float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float maximum = fmaxf(scores[2 * i], scores[2 * i + 1]);
#pragma unroll
    for (int j = 1; j < Shape::kTile / 8; ++j) {
      maximum = fmaxf(maximum, fmaxf(scores[4 * j + 2 * i], scores[4 * j + 2 * i + 1]));
    }
    maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffffu, maximum, 1));
    maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffffu, maximum, 2));
    maximum = fmaxf(state.maximum[i], __fmul_rn(maximum, scale_log2));
    const float finite = maximum == -INFINITY ? 0.0f : maximum;
    factor[i] = Exp2(__fsub_rn(state.maximum[i], finite));
    state.maximum[i] = maximum;
    float weight[2] = {__fmul_rn(state.weight[i], factor[i]), 0.0f};
#pragma unroll
    for (int j = 0; j < Shape::kTile / 8; ++j) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& score = scores[4 * j + 2 * i + c];
        score = Exp2(__fmaf_rn(score, scale_log2, -finite));
        weight[c] = __fadd_rn(weight[c], score);
      }
    }
    state.weight[i] = __fadd_rn(weight[0], weight[1]);
  }
}

template <typename Shape>
__device__ __forceinline__ void ScalePrompt(const float (&factor)[2], PromptState<Shape>& state) {
#pragma unroll
  for (int i = 0; i < Shape::kDim / 2; ++i) {
    state.sum[i] = __fmul_rn(state.sum[i], factor[i / 2 % 2]);
  }
}

template <typename Shape>
__device__ __forceinline__ void PackPromptWeights(const float (&scores)[Shape::kTile / 2],
                                                  uint32_t (&weights)[Shape::kTile / 16][4]) {
#pragma unroll
  for (int k = 0; k < Shape::kTile / 16; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      weights[k][i] = PackPair<typename Shape::T>(scores[8 * k + 2 * i], scores[8 * k + 2 * i + 1]);
    }
  }
}

}  // namespace graft::attention

#endif  // GRAFT_HOPPER
