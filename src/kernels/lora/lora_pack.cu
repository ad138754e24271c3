// One block per segment and slice. A thread takes four ranks of a row.
#include "kernels/lora/lora_pack.cuh"

#include <cuda_bf16.h>

#include <algorithm>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"

namespace graft::lora {
namespace {

constexpr int kThreads = 256;
constexpr int kQuad = 4;  // ranks of a thread

__device__ __forceinline__ uint32_t PackBf16(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
// What PackBf16 loses of v.
__device__ __forceinline__ float RestOfBf16(float v) {
  return v - __bfloat162float(__float2bfloat16_rn(v));
}

// Four elements of h, of which `count` exist. Each is the sum of its parts, in order.
__device__ __forceinline__ float4 SumParts(const float* h, int64_t part, int count, bool vectors) {
  float4 parts[kLoraSplits];
#pragma unroll
  for (int i = 0; i < kLoraSplits; ++i, h += part) {
    if (vectors) {
      parts[i] = *reinterpret_cast<const float4*>(h);
    } else {
      parts[i] = {h[0], count > 1 ? h[1] : 0.0f, count > 2 ? h[2] : 0.0f, count > 3 ? h[3] : 0.0f};
    }
  }
  float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (const float4& v : parts) {
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
  }
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    PackKernel(const __grid_constant__ LoraArgs lora, PackedH packed, bool vectors) {
  LetNextStart();
  const LoraSegment segment = lora.segments[blockIdx.x];
  const int slice = static_cast<int>(blockIdx.y);
  int rank = 0;
  float scale = 0.0f;
  if (segment.row_begin < segment.row_end) {
    const LoraMatrix& matrix = lora.matrices[segment.adapter_slot * lora.matrices_stride + slice];
    rank = matrix.rank;
    scale = matrix.scale;
  }
  WaitForPrevious();
  const int quads = (rank + kPackRanks - 1) / kPackRanks * (kPackRanks / kQuad);
  const int units = (segment.row_end - segment.row_begin) * quads;
  const int64_t part = int64_t{lora.num_slices} * lora.num_rows * lora.h_stride;
  for (int unit = static_cast<int>(blockIdx.z) * kThreads + static_cast<int>(threadIdx.x);
       unit < units; unit += static_cast<int>(gridDim.z) * kThreads) {
    const int64_t row = int64_t{slice} * lora.num_rows + segment.row_begin + unit / quads;
    const int first = unit % quads * kQuad;
    const int count = rank - first;
    float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
    if (count > 0) {
      // Where vectors are allowed, a row's stride has room for all four ranks.
      sum = SumParts(lora.h + row * lora.h_stride + first, part, count, vectors);
    }
    const float v[kQuad] = {scale * sum.x, count > 1 ? scale * sum.y : 0.0f,
                            count > 2 ? scale * sum.z : 0.0f, count > 3 ? scale * sum.w : 0.0f};
    uint16_t* const out = packed.At(row, first / kPackRanks) + first % kPackRanks;
    *reinterpret_cast<uint2*>(out) = {PackBf16(v[0], v[1]), PackBf16(v[2], v[3])};
    *reinterpret_cast<uint2*>(out + kPackRanks) = {PackBf16(RestOfBf16(v[0]), RestOfBf16(v[1])),
                                                   PackBf16(RestOfBf16(v[2]), RestOfBf16(v[3]))};
  }
}

}  // namespace

void LaunchPackH(const LoraArgs& lora, Stream& stream) {
  const bool vectors = reinterpret_cast<uintptr_t>(lora.h) % 16 == 0 && lora.h_stride % 4 == 0;
  const PackedH packed = PackedHOf(lora);
  // The number of rounds for which each thread takes one quad, if the segments have equal lengths.
  const int64_t rounds = CeilDiv(lora.num_rows * int64_t{packed.rank_tiles} * (kPackRanks / kQuad),
                                 kThreads * int64_t{lora.num_segments});
  const dim3 grid = GridOf(lora.num_segments, lora.num_slices, std::max<int64_t>(1, rounds));
  LaunchKernel(PackKernel, grid, dim3(kThreads), 0, CudaStreamOf(stream), lora, packed, vectors);
}

}  // namespace graft::lora
