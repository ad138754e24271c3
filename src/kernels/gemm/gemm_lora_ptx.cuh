// The instructions of the LoRA part of Hopper's GEMM that CUDA C++ has no words for: copies of 16
// bytes that a barrier counts, and the tensor cores' instructions of one warp. Addresses are 32-bit
// ones of shared memory. Include only where GRAFT_HOPPER is defined, see cuda_tma.cuh.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace graft {

// 16 bytes from global to shared memory, both on borders of 16 bytes; zeros where !present.
__device__ __forceinline__ void CopyPiece(uint32_t target, const void* source, bool present) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(target), "l"(source),
               "r"(present ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void StorePiece(uint32_t target, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(target), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}
// Arrives once all of the thread's copies so far are there.
__device__ __forceinline__ void BarrierArriveAfterCopies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void WaitForAllCopies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// kCount matrices of 8 rows of 16 bytes, transposed; row i of matrix m is at lane 8m + i's address.
// Lane (g = lane / 4, t = lane % 4) gets rows 2t and 2t+1 of column g of each.
template <int kCount>
__device__ __forceinline__ void LoadMatrices(uint32_t address, uint32_t (&out)[kCount]) {
  static_assert(kCount == 2 || kCount == 4);
  if constexpr (kCount == 4) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(out[0]), "=r"(out[1])
                 : "r"(address)
                 : "memory");
  }
}

// sum += A B, bf16 operands. Lane (g, t) holds
// a: row g, k (2t, 2t+1); row g+8, same k; row g, k (2t+8, 2t+9); row g+8, same k;
// b: column g, k (2t, 2t+1); same column, k (2t+8, 2t+9);
// sum: row g, columns 2t and 2t+1; row g+8, columns 2t and 2t+1.
__device__ __forceinline__ void MultiplyAdd(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0,
                                            uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t PackBf16(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
// v minus what PackBf16 keeps of it.
__device__ __forceinline__ float RestOfBf16(float v) {
  return v - __bfloat162float(__float2bfloat16_rn(v));
}

}  // namespace graft
