// The rotation itself, for all ops that contain it. It rounds as the CPU's does: one product is
// rounded, the other one is fused with the sum.
#pragma once

namespace graft {

__device__ __forceinline__ void RotatePair(float cos, float sin, float* low, float* high) {
  const float x = *low;
  const float y = *high;
  *low = __fmaf_rn(x, cos, -__fmul_rn(y, sin));
  *high = __fmaf_rn(y, cos, __fmul_rn(x, sin));
}

// The i-th pair of two runs of four dimensions: one of each, or interleaved neighbours, of which
// the first run holds two pairs.
template <bool kInterleaved>
__device__ __forceinline__ void RotatePairOfRun(int i, float cos, float sin, float (&low)[4],
                                                float (&high)[4]) {
  if constexpr (kInterleaved) {
    float* const run = i < 2 ? low : high;
    RotatePair(cos, sin, &run[2 * (i % 2)], &run[2 * (i % 2) + 1]);
  } else {
    RotatePair(cos, sin, &low[i], &high[i]);
  }
}

}  // namespace graft
