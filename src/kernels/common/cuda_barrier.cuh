// Barriers in shared memory that count arrivals and, from Hopper on, the bytes of asynchronous
// copies. Source: PTX ISA, "mbarrier". Barriers are eight bytes, named by their 32-bit addresses of
// shared memory. Inside a block they work from sm_80 on; what says so needs Hopper.
#pragma once

#include <cstdint>

namespace graft {

__device__ __forceinline__ void BarrierInit(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void BarrierArrive(uint32_t barrier) {
  asm volatile("{.reg .b64 state; mbarrier.arrive.shared.b64 state, [%0];}" ::"r"(barrier)
               : "memory");
}
// Whether the phase of the given parity is over. On Hopper a thread waits for that, but not for
// long.
__device__ __forceinline__ bool BarrierTryWait(uint32_t barrier, uint32_t parity) {
  uint32_t is_over = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
      : "=r"(is_over)
      : "r"(barrier), "r"(parity)
      : "memory");
#else
  asm volatile(
      "{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
      : "=r"(is_over)
      : "r"(barrier), "r"(parity)
      : "memory");
#endif
  return is_over != 0;
}

// Hopper: arrives, and makes the phase also wait for so many bytes of copies.
__device__ __forceinline__ void BarrierExpect(uint32_t barrier, uint32_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
#endif
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

// Waits until the phase of the given parity is over.
__device__ __forceinline__ void BarrierWait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra.uni over;\n"
      "bra.uni again;\n"
      "over:}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
// Called after all inits. Together with a cluster or block barrier it makes them visible to other
// blocks and to the copy engine.
__device__ __forceinline__ void BarrierInitDone() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Arrives at the barrier that lies in the same place of another block of the cluster.
__device__ __forceinline__ void BarrierArriveAt(uint32_t barrier, uint32_t block_rank) {
  asm volatile(
      "{.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];}" ::"r"(barrier),
      "r"(block_rank)
      : "memory");
}
__device__ __forceinline__ bool BarrierIsOver(uint32_t barrier, uint32_t parity) {
  uint32_t is_over;
  asm volatile(
      "{.reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;}"
      : "=r"(is_over)
      : "r"(barrier), "r"(parity)
      : "memory");
  return is_over != 0;
}

#endif

}  // namespace graft
