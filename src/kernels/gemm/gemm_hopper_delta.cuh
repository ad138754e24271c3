// What Hopper's GEMM adds to y last: LoRA's share of a few rows. A kernel that was launched before
// the GEMM computes it while the GEMM runs (lora_beside.cu). Since that kernel is the one directly
// in front, the GEMM cannot wait for all earlier kernels before it begins. Instead the LoRA kernel
// says when x is there, by writing the step's number to a word. Before the GEMM reads the delta it
// waits for all earlier kernels. No kernel waits for one that is launched later, so nothing depends
// on which kernels happen to run at the same time.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_tma.cuh"
#include "kernels/common/cuda_words.cuh"

namespace graft {

struct GemmDelta {
  const float* values;  // [m, n], rows y_stride apart; null: no delta
  const uint32_t* x_ready;
  const uint32_t* step;
  // The size of a box of the delta, if the delta of the block's last tile fits a stage of the ring;
  // else 0. It is copied there while W is still multiplied: as one box of all rows by the tile's
  // columns or, with an activation, as two boxes, the gate's share and up's.
  int box_bytes;
  CUtensorMap map;

  __device__ uint32_t SecondBox() const { return (box_bytes + 127) / 128 * 128; }
  __device__ __forceinline__ bool XIsReady(uint32_t step_number) const {
    return HearWord(x_ready) == step_number;
  }
};

// The rate at which a block with a delta streams W.
struct GemmPace {
  int stages;        // stages on their way at once
  int stage_cycles;  // clock cycles in which memory delivers one more stage
};

#if defined(GRAFT_HOPPER)

// Called by the one thread that saw that x may be read. It also means that what earlier kernels
// left in y may be read. It lets the threads go that wait at the barrier. The copy engine, which
// reads x too, needs no fence: x's kernel had ended before the word was written, just as where the
// hardware does the waiting.
__device__ __forceinline__ void TellXIsReady(uint32_t barrier) { BarrierArrive(barrier); }
__device__ __forceinline__ void WaitForX(const GemmDelta& delta, uint32_t barrier) {
  if (delta.values == nullptr) return WaitForPrevious();
  BarrierWait(barrier, 0);
}

#endif  // GRAFT_HOPPER

}  // namespace graft
