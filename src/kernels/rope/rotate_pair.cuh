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

}  // namespace graft
