// Block residency: how many thread blocks of a kernel a multiprocessor holds at once.
//
// Where GRAFT_GPU_FAMILY makes a card stand in for a lesser one (tensor/device_traits.h), the card
// would hold more blocks than the lesser one could: a multiprocessor of an H100 has 228 KiB of
// shared memory and room for 2,048 threads, one of an RTX 4090 has 100 KiB and 1,536. Tests would
// then see fewer blocks take turns, and figures would be too good. So such launches ask for more
// dynamic shared memory than their kernel uses: just so much that the card holds as many blocks as
// the lesser one would. That is the one way to bound residency from outside a kernel, it is the
// same for kernels that draw their work and for those that have a block for each piece, and it
// leaves a multiprocessor the 28 KiB of L1 cache that the lesser cards have as well when their
// shared memory is in use. Registers need no such care: all cards from 8.0 on have 65,536. Not
// lowered are clocks, bandwidths, the number of multiprocessors and the L2 cache itself.
//
// Pure functions, and two that ask the current device; any thread.
#pragma once

#include <cstddef>

#include "tensor/device_traits.h"

namespace graft {

struct BlockNeeds {
  int threads = 0;
  int static_bytes = 0;   // of shared memory, in the kernel's own declarations
  int dynamic_bytes = 0;  // of shared memory, at the launch
};

// Blocks that a multiprocessor with these traits has shared memory, threads and places for.
int BlocksThatFit(const DeviceTraits& traits, const BlockNeeds& block);

// The dynamic shared memory with which a multiprocessor of `shared_bytes` has room for `num_blocks`
// blocks, one at least, and no more.
int PaddedBytes(const BlockNeeds& block, int num_blocks, int shared_bytes);

// With the CUDA backend, for the current device. `dynamic_bytes` as the kernel needs it.
//
// What a launch asks for: dynamic_bytes, or more where the card stands in for a lesser one. CHECKs
// that the block would fit into a multiprocessor of that. Then it also sets the kernel's attribute
// that allows so much.
size_t SharedBytesToLaunch(const void* kernel, int threads, size_t dynamic_bytes);
// Blocks that run at once on each multiprocessor, registers considered, for grids that are to fill
// the card once.
int ResidentBlocksOf(const void* kernel, int threads, size_t dynamic_bytes);

}  // namespace graft
