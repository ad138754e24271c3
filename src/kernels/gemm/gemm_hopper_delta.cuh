// What Hopper's GEMM adds to y last: LoRA's share of a few rows, which a kernel launched before it
// computes beside it (lora_beside.cu). Having that one in front, the GEMM cannot wait for all
// earlier kernels before it begins: that one says when x is there, by writing the step's number.
// All else is waited for before the delta is read. Nothing waits for a kernel that was launched
// later, so nothing depends on what runs at the same time.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_tma.cuh"
#include "kernels/common/cuda_words.cuh"

namespace graft {

struct GemmDelta {
  const float* values;  // [m, n], rows y_stride apart; null: none
  const uint32_t* x_ready;
  const uint32_t* step;
  // Where the block's last tile of it fits a stage of the ring, to which it is copied while W is
  // still multiplied: in a box of all rows by a tile's columns, or in two, by its share of the
  // gate's and of up's. 0: it does not.
  int box_bytes;
  CUtensorMap map;

  __device__ uint32_t SecondBox() const { return (box_bytes + 127) / 128 * 128; }
  __device__ __forceinline__ bool XIsReady(uint32_t step_number) const {
    return HearWord(x_ready) == step_number;
  }
};

// How a block with a delta streams W.
struct GemmPace {
  int stages;        // on their way at once
  int stage_cycles;  // until memory has delivered another one
};

#if defined(GRAFT_HOPPER)

// By the one thread that saw that x may be read, and so may what earlier kernels left in y: lets go
// those that wait at the barrier. No fence for the copy engine, which reads x, too: x's kernel had
// ended before the word was written, as it has where the hardware tells.
__device__ __forceinline__ void TellXIsReady(uint32_t barrier) { BarrierArrive(barrier); }
__device__ __forceinline__ void WaitForX(const GemmDelta& delta, uint32_t barrier) {
  if (delta.values == nullptr) return WaitForPrevious();
  BarrierWait(barrier, 0);
}

#endif  // GRAFT_HOPPER

}  // namespace graft
