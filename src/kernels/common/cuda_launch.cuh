// Launches kernels so that each launch overlaps the end of the kernel before (programmatic
// dependent launch, Hopper). That saves about a microsecond per kernel of a chain. Older cards
// launch in the ordinary way.
//
// A kernel launched with LaunchKernel begins while earlier kernels of its stream still run. So all
// of its threads call WaitForPrevious before they touch anything that an earlier kernel writes, and
// before they write anything that one reads. Until then they may read constants (weights) and
// compute indices. Some kernels read earlier. What they may read is stated at AttentionArgs'
// arrays, and at LoraArgs::follows_product and precedes_product, which the host CHECKs
// (LaunchLedger).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/common/block_residency.h"
#include "kernels/common/launch_ledger.h"
#include "tensor/cuda_check.h"
#include "tensor/device_traits.h"

namespace graft {

// Waits until all kernels before this one have finished and their writes can be seen.
__device__ __forceinline__ void WaitForPrevious() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Makes visible what the kernel before this one had seen before it called LetNextStart. A thread
// calls it instead of WaitForPrevious, if it needs no more than that. Without it this
// multiprocessor might still see something older.
__device__ __forceinline__ void SeeWhatPreviousSaw() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

// Allows the next kernel to begin once all blocks of this one have called it or ended. Most kernels
// call it early: the next kernel protects itself by its own WaitForPrevious. A block that waits on
// its multiprocessor holds registers and shared memory, so kernels that fill the card call it late.
__device__ __forceinline__ void LetNextStart() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// The traits of the calling thread's device.
inline const DeviceTraits& CurrentTraits() {
  int index = 0;
  CUDA_CHECK(cudaGetDevice(&index));
  return TraitsOf({DeviceKind::kCuda, index});
}

// A grid of blocks by numbers as the host computes them. LaunchKernel fails where a card has no
// such grid.
inline dim3 GridOf(int64_t x, int64_t y = 1, int64_t z = 1) {
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z));
}

// kernel<<<grid, block, shared_bytes, stream>>>(args...), overlapping the kernel before it. The
// kernel must call WaitForPrevious, as described above.
template <typename... Params, typename... Args>
void LaunchKernel(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
                  cudaStream_t stream, Args&&... args) {
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes =
      SharedBytesToLaunch(reinterpret_cast<const void*>(kernel),
                          static_cast<int>(block.x * block.y * block.z), shared_bytes);
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = CurrentTraits().overlaps_launches ? 1 : 0;
  LaunchLedger::OfThread().Launched(stream);
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...);
  CHECK(error == cudaSuccess) << cudaGetErrorString(error) << ": grid " << grid.x << " x " << grid.y
                              << " x " << grid.z << ", block " << block.x << " x " << block.y
                              << ", shared bytes " << shared_bytes;
}

}  // namespace graft
