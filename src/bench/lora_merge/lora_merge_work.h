// What the compiled copies of LoraMerge and its CUDA twin take: plain data. The weights are in the
// layouts of gemm_layout.h (CPU) and gemm_cuda.h.
#pragma once

#include <cstdint>

#include "kernels/lora/lora.h"
#include "tensor/dtype.h"

namespace graft {

struct LoraMergeWork {
  const void* base = nullptr;
  void* merged = nullptr;
  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kF32;
  const LoraMatrix* matrices = nullptr;
  int32_t num_slices = 1;
  int64_t slice_n[kLoraSlicesMax] = {};
};

}  // namespace graft
