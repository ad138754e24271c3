// The gradients of LoRA's matrices: per segment a sum of outer products over its rows. With h the
// forward's x A^T and x the gradient of y it is that of B transposed; with h that gradient times B
// and x the forward's input it is that of A. A segment's result is the same bits whatever other
// segments there are.
#pragma once

#include <cstdint>

#include "kernels/lora/lora.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

// Rows of one adapter and the numbers that they add to. No two segments add to the same.
struct LoraGradientSegment {
  int32_t row_begin = 0;
  int32_t row_end = 0;
  float* gradient = nullptr;  // all of an adapter's matrices, see rank_offset
  int32_t rank = 0;           // 0: nothing to do
  float scale = 0.0f;
};

inline constexpr int32_t kLoraGradientMatrices = 3;
inline constexpr int32_t kLoraGradientProducts = kLoraGradientMatrices + 1;

// Matrices that have the same x in their outer products.
struct LoraGradientProduct {
  // [rows, ...] of dtype, rows h_stride elements apart. Matrix m's ranks begin at element
  // m * h_matrix of a row.
  const void* h = nullptr;
  int64_t h_stride = 0;
  int64_t h_matrix = 0;
  const void* x = nullptr;  // [rows, n] of dtype, rows x_stride elements apart
  int64_t x_stride = 0;
  int64_t n = 0;
  int32_t num_matrices = 1;
  // A segment's matrix m is [rank, n] from element rank * rank_offset[m] of its gradient on.
  int64_t rank_offset[kLoraGradientMatrices] = {};
};

// matrix[j] += scale * sum over the segment's rows of h[row][j] * x[row]. The CPU adds one row
// after the other. A GPU sums parts of kLoraGradientPartRows rows and adds their sums in the parts'
// order. All sums are in fp32.
struct LoraGradientArgs {
  // [num_segments], in the device's memory; ascending and disjoint.
  const LoraGradientSegment* segments = nullptr;
  int32_t num_segments = 0;
  LoraGradientProduct products[kLoraGradientProducts];
  int32_t num_products = 0;
  DType dtype = DType::kF32;  // bf16 on a GPU alone
  // On a GPU: a bound on ranks, rows of the batch, LoraGradientScratchFloats, and
  // LoraGradientCounters, which are zeros before and after. h and its strides are multiples of 16
  // bytes, and a matrix's ranks are filled up to a multiple of kLoraGradientRanks.
  int32_t rank_max = 0;
  int32_t num_rows = 0;
  float* scratch = nullptr;
  uint32_t* counters = nullptr;
};

inline constexpr int32_t kLoraGradientPartRows = 1024;
inline constexpr int32_t kLoraGradientRanks = 16;

// What a matrix's ranks take in a row of h.
constexpr int64_t LoraGradientRankStride(int64_t rank_max) {
  return (rank_max + kLoraGradientRanks - 1) / kLoraGradientRanks * kLoraGradientRanks;
}

// For up to so many rows, ranks, and columns of all products' matrices together; 0 on the CPU.
int64_t LoraGradientScratchFloats(const Device& device, int32_t num_rows, int32_t num_segments,
                                  int32_t rank_max, int64_t columns);
int64_t LoraGradientCounters(const Device& device, int32_t num_segments, int32_t rank_max,
                             int64_t columns);

void LoraGradient(const LoraGradientArgs& args, Stream& stream);

// LoraShrink leaves h in this many parts, which add up to it.
inline int32_t LoraPartsOf(const Device& device) { return device.is_cpu() ? 1 : kLoraSplits; }

// h as LoraShrink leaves it, summed up and rounded as LoraGradient takes it, on a GPU as it must.
struct LoraGradientRoundArgs {
  // Rank j of a slice's row: the sum, in order, of num_parts numbers, `part` elements apart from
  // h[slice * h_slice + row * h_stride + j] on.
  const float* h = nullptr;
  int64_t h_stride = 0;
  int64_t h_slice = 0;
  int32_t num_slices = 1;
  int32_t num_parts = 1;
  int64_t part = 0;
  int32_t rank_max = 0;
  int32_t num_rows = 0;
  DType dtype = DType::kF32;
  void* out = nullptr;  // [num_rows, num_slices, LoraGradientRankStride(rank_max)] of dtype
};
void LoraGradientRound(const LoraGradientRoundArgs& args, Stream& stream);

}  // namespace graft
