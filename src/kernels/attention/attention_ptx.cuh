// The instructions of the attention kernels that CUDA C++ has no words for: asynchronous copies,
// loads of matrix fragments, tensor cores. All exist from sm_80 on. Addresses are 32-bit ones of
// shared memory. In fragments, g = lane / 4 and t = lane % 4.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/common/cuda_cache.cuh"
#include "tensor/dtype.h"

namespace graft::attention {

__device__ __forceinline__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// 16 bytes from global to shared memory, both on borders of 16 bytes; zeros where !present. On
// Hopper they leave the cache first.
__device__ __forceinline__ void CopyAsync(uint32_t to_shared, const void* from, bool present) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(to_shared),
      "l"(from), "r"(present ? 16 : 0), "l"(kCacheFirstOut)
      : "memory");
#else
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to_shared), "l"(from),
               "r"(present ? 16 : 0)
               : "memory");
#endif
}

__device__ __forceinline__ void CommitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Until all but the thread's last kPending committed groups are there, for that thread.
template <int kPending>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// The same without the choice.
__device__ __forceinline__ void CopyAsync(uint32_t to_shared, const void* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2;" ::"r"(to_shared),
      "l"(from), "l"(kCacheFirstOut)
      : "memory");
#else
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to_shared), "l"(from)
               : "memory");
#endif
}

// Four 8x8 matrices of 16-bit elements; lanes 8i to 8i+7 give the addresses of matrix i's rows.
// Lane (g, t) gets row g, columns 2t and 2t+1 of each.
__device__ __forceinline__ void LoadMatrices(uint32_t address, uint32_t (&m)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address));
}

// The same, each matrix transposed.
__device__ __forceinline__ void LoadMatricesTransposed(uint32_t address, uint32_t (&m)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address));
}

// An 8x8 matrix held as LoadMatrices gives it. All lanes of the warp take part.
__device__ __forceinline__ uint32_t Transpose(uint32_t m) {
  uint32_t transposed;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(m));
  return transposed;
}

// sum += A B, m16n8k16. a: rows g, g+8, g, g+8 at k (2t, 2t+1) twice, then (2t+8, 2t+9) twice;
// b: column g at k (2t, 2t+1), then (2t+8, 2t+9); sum: row g at columns 2t, 2t+1, then row g+8.
template <typename T>
__device__ __forceinline__ void MultiplyAdd(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0,
                                            uint32_t b1) {
  if constexpr (DTypeOf<T>() == DType::kBF16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// Two elements of T in one register, `low` at the lower address. Rounds to nearest even.
template <typename T>
__device__ __forceinline__ uint32_t PackPair(float low, float high) {
  uint32_t packed;
  if constexpr (DTypeOf<T>() == DType::kBF16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  }
  return packed;
}

// 2^x to about 2 units in the last place; exactly 1 at 0 and 0 at -infinity.
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace graft::attention
