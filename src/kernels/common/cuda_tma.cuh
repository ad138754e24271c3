// Hopper's copies of boxes of a tensor from global to shared memory (TMA). A barrier counts the
// bytes that have arrived (cuda_barrier.cuh). The thread blocks of a cluster can share barriers and
// copies. Source: PTX ISA, "cp.async.bulk.tensor". Addresses are 32-bit addresses of shared memory.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/common/cuda_barrier.cuh"
#include "kernels/common/cuda_cache.cuh"
#include "kernels/common/cuda_shared.cuh"

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
// Writes two floats to that address of another block of the cluster.
__device__ __forceinline__ void StoreFloat2At(uint32_t address, uint32_t block_rank, float a,
                                              float b) {
  asm volatile(
      "{.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "st.shared::cluster.v2.f32 [remote], {%2, %3};}" ::"r"(address),
      "r"(block_rank), "f"(a), "f"(b)
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
