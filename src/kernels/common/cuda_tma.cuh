// Hopper's asynchronous copies between global and shared memory (TMA), and the barriers in shared
// memory that count their bytes. The thread blocks of a cluster can share barriers and copies.
// Source: PTX ISA, "mbarrier" and "cp.async.bulk.tensor". Addresses are 32-bit addresses of shared
// memory.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/common/cuda_cache.cuh"

// Guards code that only Hopper's own target understands.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GRAFT_HOPPER 1
#endif

// A kernel's attribute: its blocks per cluster. Cards before Hopper have no clusters and never run
// these kernels.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define GRAFT_CLUSTER_BLOCKS(n)
#else
#define GRAFT_CLUSTER_BLOCKS(n) __cluster_dims__(n, 1, 1)
#endif

namespace graft {

#if defined(GRAFT_HOPPER)

__device__ __forceinline__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void BarrierInit(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
// Called after all inits. Together with a cluster or block barrier it makes them visible to other
// blocks and to the copy engine.
__device__ __forceinline__ void BarrierInitDone() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Arrives, and makes the phase also wait for so many bytes of copies.
__device__ __forceinline__ void BarrierExpect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void BarrierArrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
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

__device__ __forceinline__ uint32_t ClusterBlockRank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void ClusterSync() {
  asm volatile(
      "barrier.cluster.arrive.aligned;\n"
      "barrier.cluster.wait.aligned;" ::
          : "memory");
}

// Copies the map's box at (column, row) to shared memory; the bytes count at `barrier`. Elements
// outside the tensor arrive as zeros.
__device__ __forceinline__ void CopyBox(const CUtensorMap& map, uint32_t target, uint32_t barrier,
                                        int column, int row, uint64_t cache) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(target),
      "l"(&map), "r"(column), "r"(row), "r"(barrier), "l"(cache)
      : "memory");
}
// CopyBox to every block of the cluster that has its bit set in `blocks`, at the same addresses.
__device__ __forceinline__ void CopyBoxToAll(const CUtensorMap& map, uint32_t target,
                                             uint32_t barrier, int column, int row, uint16_t blocks,
                                             uint64_t cache) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(target),
      "l"(&map), "r"(column), "r"(row), "r"(barrier), "h"(blocks), "l"(cache)
      : "memory");
}
// CopyBox and CopyBoxToAll for maps of [parts, rows, columns].
__device__ __forceinline__ void CopyBox3(const CUtensorMap& map, uint32_t target, uint32_t barrier,
                                         int column, int row, int part, uint64_t cache) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(target),
      "l"(&map), "r"(column), "r"(row), "r"(part), "r"(barrier), "l"(cache)
      : "memory");
}
__device__ __forceinline__ void CopyBox3ToAll(const CUtensorMap& map, uint32_t target,
                                              uint32_t barrier, int column, int row, int part,
                                              uint16_t blocks, uint64_t cache) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6, %7;" ::"r"(target),
      "l"(&map), "r"(column), "r"(row), "r"(part), "r"(barrier), "h"(blocks), "l"(cache)
      : "memory");
}
// CopyBox and CopyBoxToAll for maps of four dimensions, the last of which is the outermost.
__device__ __forceinline__ void CopyBox4(const CUtensorMap& map, uint32_t target, uint32_t barrier,
                                         int column, int row, int part, int group, uint64_t cache) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(target),
      "l"(&map), "r"(column), "r"(row), "r"(part), "r"(group), "r"(barrier), "l"(cache)
      : "memory");
}
__device__ __forceinline__ void CopyBox4ToAll(const CUtensorMap& map, uint32_t target,
                                              uint32_t barrier, int column, int row, int part,
                                              int group, uint16_t blocks, uint64_t cache) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7, %8;" ::"r"(
          target),
      "l"(&map), "r"(column), "r"(row), "r"(part), "r"(group), "r"(barrier), "h"(blocks), "l"(cache)
      : "memory");
}
__device__ __forceinline__ void PrefetchMap(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Makes this thread's ordinary writes to shared memory visible to matrix instructions, for threads
// that pass a barrier after it.
__device__ __forceinline__ void FenceForAsync() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#endif  // GRAFT_HOPPER

}  // namespace graft
