// Packs h as Hopper's GEMM takes it (gemm_hopper_lora.cuh). The sum of h's parts times the
// adapter's scale is written as two bf16 numbers, of which the second is what the first loses.
// Together they keep 16 bits.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/lora/lora.h"
#include "tensor/stream.h"

namespace graft::lora {

inline constexpr int kPackRanks = 16;
inline constexpr int kPackElements = 2 * kPackRanks;  // of a row: first numbers, then second ones

// [num_slices * num_rows, tiles of ranks, kPackElements], on a 16-byte border. Rows without a
// segment, and tiles past a segment's rank, hold anything. Ranks past it within its last tile hold
// zeros.
struct PackedH {
  uint16_t* data = nullptr;
  int rank_tiles = 0;

  __host__ __device__ uint16_t* At(int64_t row, int rank_tile) const {
    return data + (row * rank_tiles + rank_tile) * kPackElements;
  }
};

// Where LaunchPackH puts the packed h: behind the parts (LoraScratchFloats).
inline PackedH PackedHOf(const LoraArgs& lora) {
  const int64_t parts = int64_t{kLoraSplits} * lora.num_slices * lora.num_rows * lora.h_stride;
  const uintptr_t end = reinterpret_cast<uintptr_t>(lora.h + parts);
  return {reinterpret_cast<uint16_t*>((end + 15) / 16 * 16),
          static_cast<int>((lora.h_stride + kPackRanks - 1) / kPackRanks)};
}

// Packs h for segments of bf16 adapters. To be called after LoraShrink.
void LaunchPackH(const LoraArgs& lora, Stream& stream);

}  // namespace graft::lora
