// How long the second-level cache should keep what a copy reads, in the encoding of Hopper's
// copies. A step streams gigabytes through its 50 MB. What is read once must not drive out what
// every layer reads again: activations, page tables, code. Also what the cache computes itself.
#pragma once

#include <cstdint>

namespace graft {

inline constexpr uint64_t kCacheNormal = 0x1000000000000000;
inline constexpr uint64_t kCacheFirstOut = 0x12f0000000000000;
inline constexpr uint64_t kCacheLastOut = 0x14f0000000000000;

#if defined(__CUDACC__)
// p[0, 4) += v in the L2 cache. p lies on a 16-byte border. From Hopper on this is one instruction.
__device__ __forceinline__ void AddInL2(float* p, float4 v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(v.x), "f"(v.y),
               "f"(v.z), "f"(v.w)
               : "memory");
#else
  atomicAdd(p, v.x);
  atomicAdd(p + 1, v.y);
  atomicAdd(p + 2, v.z);
  atomicAdd(p + 3, v.w);
#endif
}
#endif

}  // namespace graft
