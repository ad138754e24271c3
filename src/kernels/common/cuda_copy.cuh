// Copies from global to shared memory that a thread does not wait for. Sources: PTX ISA, "cp.async"
// (sm_80 and later: 16 bytes for each thread and instruction) and "cp.async.bulk" (Hopper's copy
// engine: whole pieces, counted by a barrier). Targets are 32-bit addresses of shared memory; both
// sides lie on borders of what is copied.
#pragma once

#include <cstdint>

#include "kernels/common/cuda_cache.cuh"

namespace graft {

// 16 bytes; zeros where !present.
__device__ __forceinline__ void CopyAsync(uint32_t to, const void* from, bool present) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(present ? 16 : 0)
               : "memory");
}
// 4 bytes.
__device__ __forceinline__ void CopyWordAsync(uint32_t to, const void* from, bool present) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
               "r"(present ? 4 : 0)
               : "memory");
}

// 16 bytes, of which the L2 cache reads the whole line of 128: for rows that are read to their end.
__device__ __forceinline__ void CopyLineAsync(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from)
               : "memory");
}
__device__ __forceinline__ void CopyLineAsync(uint32_t to, const void* from, bool present) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(present ? 16 : 0)
               : "memory");
}
// The first `bytes` of them, 0 to 16, and zeros behind.
__device__ __forceinline__ void CopyLineBytesAsync(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(bytes)
               : "memory");
}
// The same for what is read once: in Hopper's own code it leaves the cache first. Not in that of
// other cards: where a target is partly the same for all threads of a warp, ptxas of CUDA 13.0
// loses that part's register beside a hint, and the GPU meets an illegal instruction
// (workshop/cuda_gemm_ampere.md). tools/cuda_code.py looks for such code.
__device__ __forceinline__ void CopyLineOnceAsync(uint32_t to, const void* from) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2;" ::"r"(to),
               "l"(from), "l"(kCacheFirstOut)
               : "memory");
#else
  CopyLineAsync(to, from);
#endif
}
__device__ __forceinline__ void CopyLineOnceAsync(uint32_t to, const void* from, bool present) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(to),
      "l"(from), "r"(present ? 16 : 0), "l"(kCacheFirstOut)
      : "memory");
#else
  CopyLineAsync(to, from, present);
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
// Until all of the thread's copies are there, committed or not, for that thread.
__device__ __forceinline__ void WaitForAllCopies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// The copy engine copies `bytes`, a multiple of 16; they count at `barrier`. From Hopper on.
__device__ __forceinline__ void CopyBulk(uint32_t to, const void* from, uint32_t bytes,
                                         uint32_t barrier, uint64_t cache) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(cache)
      : "memory");
#endif
}
// Brings `bytes`, a multiple of 16, into the L2 cache. From Hopper on.
__device__ __forceinline__ void PrefetchBulk(const void* from, uint32_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}

}  // namespace graft
