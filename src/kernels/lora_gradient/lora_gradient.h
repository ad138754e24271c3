// The gradients of LoRA's matrices: per segment a sum of outer products over its rows. With h the
// forward's x A^T and x the gradient of y it is that of B transposed; with h that gradient times B
// and x the forward's input it is that of A. A segment's result is the same bits whatever other
// segments there are.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

// Rows of one adapter and the matrix that they add to. No two segments add to one matrix.
struct LoraGradientSegment {
  int32_t row_begin = 0;
  int32_t row_end = 0;
  float* gradient = nullptr;  // [rank, n] from element rank * LoraGradientArgs::rank_offset on
  int32_t rank = 0;           // 0: nothing to do
  float scale = 0.0f;
};

// gradient[j] += scale * sum over the segment's rows of h[row][j] * x[row], rows in order: one
// after the other on the CPU; on a GPU in parts of kLoraGradientPartRows, whose sums follow each
// other, with h and x in x_dtype and sums in fp32.
struct LoraGradientArgs {
  // [num_segments], in the device's memory; ascending and disjoint.
  const LoraGradientSegment* segments = nullptr;
  int32_t num_segments = 0;
  const float* h = nullptr;  // [rows, rank], rows h_stride elements apart; h_stride >= any rank
  int64_t h_stride = 0;
  // On a GPU h may be the sum of so many, each h_part elements behind the one before: LoraShrink's.
  int32_t num_h_parts = 1;
  int64_t h_part = 0;
  const void* x = nullptr;      // [rows, n] of x_dtype, rows x_stride elements apart
  DType x_dtype = DType::kF32;  // bf16 on a GPU alone
  int64_t x_stride = 0;
  int64_t n = 0;
  int64_t rank_offset = 0;
  // On a GPU: a bound on ranks, rows of the batch, and LoraGradientScratchFloats.
  int32_t rank_max = 0;
  int32_t num_rows = 0;
  float* scratch = nullptr;
};

inline constexpr int32_t kLoraGradientPartRows = 512;

// For up to so many rows, ranks and columns; 0 on the CPU.
int64_t LoraGradientScratchFloats(const Device& device, int32_t num_rows, int32_t num_segments,
                                  int32_t rank_max, int64_t n);

void LoraGradient(const LoraGradientArgs& args, Stream& stream);

}  // namespace graft
