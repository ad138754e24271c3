// A warp's tensor cores, and the fragments that they take, from sm_80 on. Source: PTX ISA, "mma",
// "ldmatrix" and "movmatrix". Addresses are 32-bit ones of shared memory. In fragments, g = lane /
// 4 and t = lane % 4.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace graft {

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
__device__ __forceinline__ uint32_t TransposeMatrix(uint32_t m) {
  uint32_t transposed;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(m));
  return transposed;
}

// sum += A B, m16n8k16, T: Bfloat16 or Float16. a: rows g, g+8, g, g+8 at k (2t, 2t+1) twice, then
// (2t+8, 2t+9) twice; b: column g at k (2t, 2t+1), then (2t+8, 2t+9); sum: row g at columns 2t,
// 2t+1, then row g+8.
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

}  // namespace graft
