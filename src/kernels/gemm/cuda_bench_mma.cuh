// For Gemm's device bench: what this card's mma.sync gives at most, as a loop over registers that
// reads no memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/common/cuda_bench.cuh"
#include "kernels/common/cuda_mma.cuh"
#include "tensor/device_traits.h"

namespace graft::mma_bench {

constexpr int kWarps = 8;    // of a block
constexpr int kChains = 16;  // of a warp: more than the tensor cores' latency needs
constexpr int kSteps = 4096;

// A word of two bf16 numbers between 1 and 2 in size, of either sign: zeros would use less power,
// and clocks would be higher than a product's.
__device__ __forceinline__ uint32_t RandomPair(uint32_t seed) {
  seed = (seed ^ 61u ^ (seed >> 16)) * 9u;
  seed = (seed ^ (seed >> 4)) * 0x27d4eb2du;
  return ((seed ^ (seed >> 15)) & 0x807f807fu) | 0x3f803f80u;
}

__global__ void __launch_bounds__(kWarps * 32) PeakKernel(float* out) {
  const auto thread = static_cast<uint32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  uint32_t a[4][4];
  uint32_t b[4][2];
#pragma unroll
  for (uint32_t i = 0; i < 16; ++i) a[i / 4][i % 4] = RandomPair(thread * 24 + i);
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i) b[i / 2][i % 2] = RandomPair(thread * 24 + 16 + i);
  float sum[kChains][4] = {};
#pragma unroll 1
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int i = 0; i < kChains; ++i)
      MultiplyAdd<Bfloat16>(sum[i], a[i / 4], b[i % 4][0], b[i % 4][1]);
  }
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < kChains; ++i) total += sum[i][0] + sum[i][1] + sum[i][2] + sum[i][3];
  out[thread] = total;
}

// FLOP/s.
inline double Peak(Stream& stream) {
  const int blocks = TraitsOf(stream.device).num_multiprocessors * 2;
  const Buffer out(int64_t{blocks} * kWarps * 32 * 4, stream.device);
  const double us = cuda_bench::MicrosecondsPerLaunch(stream, 8, [&](int) {
    PeakKernel<<<blocks, kWarps * 32, 0, CudaStreamOf(stream)>>>(
        const_cast<float*>(out.as<float>()));
  });
  return 2.0 * 16 * 8 * 16 * kChains * kSteps * kWarps * blocks / us * 1e6;
}

}  // namespace graft::mma_bench
