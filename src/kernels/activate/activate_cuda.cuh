// A plain MLP's activation of one element. All kernels that compute it use this, so they have the
// same bits.
#pragma once

#include "kernels/gated_activation/gated_activation.h"
#include "kernels/gated_activation/gated_activation_cuda.cuh"

namespace graft {

template <Activation kActivation>
__device__ __forceinline__ float ActivatedElement(float x) {
  if constexpr (kActivation == Activation::kSilu) {
    return SiluTimes(x, 1.0f);
  } else if constexpr (kActivation == Activation::kGeluTanh) {
    return GeluTanhTimes(x, 1.0f);
  } else if constexpr (kActivation == Activation::kGelu) {
    return __fmul_rn(x, normcdff(x));
  } else {
    return x < 0.0f ? 0.0f : x;  // NaN stays
  }
}

}  // namespace graft
