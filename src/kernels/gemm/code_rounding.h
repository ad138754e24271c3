// What the copies of code_rounding_cpu.cc take.
#pragma once

#include <cstdint>

#include "kernels/gemm/weight_format.h"
#include "tensor/stream.h"

namespace graft {

struct RoundToCodesArgs {
  WeightFormat format = DType::kF32;  // of codes, without zero points
  const float* numbers = nullptr;     // [k], finite
  int64_t k = 0;
  uint8_t* codes = nullptr;  // [k]
  float* scales = nullptr;   // one for each block of format.scale_numbers
};

}  // namespace graft
