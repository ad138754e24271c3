// h as Hopper's GEMM takes it (gemm_hopper_lora.cuh): the parts' sum times the adapter's scale, as
// two bf16 numbers, the second of which is what the first leaves: 16 bits of it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/lora/lora.h"
#include "tensor/stream.h"

namespace graft::lora {

inline constexpr int kPackRanks = 16;
inline constexpr int kPackElements = 2 * kPackRanks;  // of a row: the first numbers, the second

// [num_slices * num_rows, tiles of ranks, kPackElements], on a border of 16 bytes. Rows of no
// segment and tiles past a segment's rank hold anything; ranks past it zeros.
struct PackedH {
  uint16_t* data = nullptr;
  int rank_tiles = 0;

  __host__ __device__ uint16_t* At(int64_t row, int rank_tile) const {
    return data + (row * rank_tiles + rank_tile) * kPackElements;
  }
};

// Where LaunchPackH puts it: behind the parts, see LoraScratchFloats.
inline PackedH PackedHOf(const LoraArgs& lora) {
  const int64_t parts = int64_t{kLoraSplits} * lora.num_slices * lora.num_rows * lora.h_stride;
  const uintptr_t end = reinterpret_cast<uintptr_t>(lora.h + parts);
  return {reinterpret_cast<uint16_t*>((end + 15) / 16 * 16),
          static_cast<int>((lora.h_stride + kPackRanks - 1) / kPackRanks)};
}

// Of bf16 adapters' segments, after LoraShrink.
void LaunchPackH(const LoraArgs& lora, Stream& stream);

}  // namespace graft::lora
