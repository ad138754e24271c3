// The rotation itself, for the ops that contain it: rounds as the CPU's does, product first.
#pragma once

namespace graft {

__device__ __forceinline__ void RotatePair(float cos, float sin, float* low, float* high) {
  const float x = *low;
  const float y = *high;
  *low = __fmaf_rn(x, cos, -__fmul_rn(y, sin));
  *high = __fmaf_rn(y, cos, __fmul_rn(x, sin));
}

}  // namespace graft
