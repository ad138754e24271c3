// Rows of floats, rounded, to where each belongs: an adapter's masters to the rows that LoRA's
// kernels read.
//
// All of it is there before anything launched later begins, also what looks at its arguments before
// the kernels in front of it have ended (common/cuda_launch.cuh).
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

struct RoundedRow {
  int64_t begin = 0;  // into RoundRowsArgs::x
  int64_t n = 0;
  void* out = nullptr;  // [n] of dtype
};

struct RoundRowsArgs {
  const float* x = nullptr;
  const RoundedRow* rows = nullptr;  // [num_rows], in the device's memory
  int64_t num_rows = 0;
  DType dtype = DType::kF32;
};

void RoundRows(const RoundRowsArgs& args, Stream& stream);

}  // namespace graft
