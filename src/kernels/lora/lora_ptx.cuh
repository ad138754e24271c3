// Instructions of the LoRA kernels for which CUDA C++ has no words: copies that a barrier in shared
// memory counts, and tensor cores. Hopper's copy engine copies whole pieces of rows; older cards
// copy 16 bytes per instruction. Addresses are 32-bit addresses of shared memory.
#pragma once

#include <cstdint>

namespace graft::lora {

__device__ __forceinline__ uint32_t AddressInShared(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// ---- Copies ----

// Copies 16 bytes from global to shared memory; both lie on 16-byte borders.
__device__ __forceinline__ void CopyAsync(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from)
               : "memory");
}
// Waits until all of this thread's CopyAsync are done. Only this thread may then rely on them.
__device__ __forceinline__ void WaitForCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// The copy engine copies `bytes`, a multiple of 16; they count at `barrier`. Hopper only.
__device__ __forceinline__ void CopyPiece(uint32_t to, const void* from, uint32_t bytes,
                                          uint32_t barrier, uint64_t cache) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(cache)
      : "memory");
#endif
}

// Brings `bytes`, a multiple of 16, into the L2 cache. Hopper only.
__device__ __forceinline__ void PrefetchPiece(const void* from, uint32_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}

__device__ __forceinline__ uint4 LoadShared(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

__device__ __forceinline__ void StoreShared(uint32_t address, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}

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

// ---- Barriers ----

__device__ __forceinline__ void InitBarrier(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void Arrive(uint32_t barrier) {
  asm volatile("{.reg .b64 state; mbarrier.arrive.shared.b64 state, [%0];}" ::"r"(barrier)
               : "memory");
}

// Arrives, and makes the phase also wait for so many bytes of CopyPiece. Hopper only.
__device__ __forceinline__ void ArriveExpecting(uint32_t barrier, uint32_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
#endif
}

// Waits until the phase of the given parity is over.
__device__ __forceinline__ void WaitAtBarrier(uint32_t barrier, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, "
        "p;}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
#else
    asm volatile(
        "{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
#endif
  }
}

// A barrier of the first kThreads threads of the block.
template <int kThreads>
__device__ __forceinline__ void SyncThreads() {
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}
// A barrier of the first kThreads threads of one team; each team of a block has its own.
template <int kThreads>
__device__ __forceinline__ void SyncTeamThreads() {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.y), "n"(kThreads) : "memory");
}

// ---- Tensor cores ----

// sum += A B, m16n8k16. Lane (g = lane / 4, t = lane % 4) holds
// a: row g, k (2t, 2t+1); row g+8, same k; row g, k (2t+8, 2t+9); row g+8, same k;
// b: column g, k (2t, 2t+1); same column, k (2t+8, 2t+9);
// sum: row g, columns 2t and 2t+1; row g+8, columns 2t and 2t+1.
template <bool kIsBf16>
__device__ __forceinline__ void MultiplyAdd(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                            uint32_t a3, uint32_t b0, uint32_t b1) {
  if constexpr (kIsBf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
}

}  // namespace graft::lora
