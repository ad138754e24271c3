// Reductions over a warp and over a block. Their order depends on the number of threads alone.
// Every thread gets the result.
#pragma once

#include <cstdint>

namespace graft {

inline constexpr int kWarpThreads = 32;

template <typename T, typename Combine>
__device__ __forceinline__ T ReduceWarp(T value, const Combine& combine) {
#pragma unroll
  for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

// All threads of a block of whole warps call it. `scratch` is shared memory of one element per
// warp; no thread may use it between the barrier before the call and the one after it. `neutral`
// changes no value.
template <typename T, typename Combine>
__device__ __forceinline__ T ReduceBlock(T value, T neutral, T* scratch, const Combine& combine) {
  const unsigned lane = threadIdx.x % kWarpThreads;
  const unsigned num_warps = blockDim.x / kWarpThreads;
  value = ReduceWarp(value, combine);
  if (lane == 0) scratch[threadIdx.x / kWarpThreads] = value;
  __syncthreads();
  value = lane < num_warps ? scratch[lane] : neutral;
  return ReduceWarp(value, combine);
}

struct Add {
  template <typename T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};

}  // namespace graft
