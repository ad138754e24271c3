// The packed weight, the same for every instruction set: panels of kGemmPanel columns (rows of W),
// one after the other, so that a thread streams its share of W front to back. Inside a panel step
// follows step: 128 bytes hold, for each of the panel's columns, one fp32 value of k or a pair of
// bf16 values of neighbouring k (what vdpbf16ps takes). Columns past n and k past the end are 0. On
// a GPU rows lie one after the other, GemmCudaStride elements apart.
#pragma once

#include <cstdint>

#include "kernels/gemm/gemm.h"
#include "tensor/buffer.h"

namespace graft {

inline constexpr int64_t kGemmPanel = 32;
inline constexpr int64_t kGemmStepBytes = 128;  // kGemmPanel x 4 bytes

struct GemmWeight::State {
  Buffer panels;  // [num_panels][num_steps][kGemmPanel][4 bytes]; of codes: gemm_codes.h
  int64_t n = 0;
  int64_t k = 0;
  WeightFormat format = DType::kF32;

  DType dtype() const { return format.operands; }
  int64_t num_panels() const { return (n + kGemmPanel - 1) / kGemmPanel; }
  // Values of k in one step of plain numbers.
  int64_t step_k() const { return 32 / format.bits; }
  int64_t num_steps() const { return (k + step_k() - 1) / step_k(); }
  int64_t panel_bytes() const;
};

// What one compiled copy of the kernel takes: plain data, sliced to at most kGemmRowsMax rows.
struct GemmCpuArgs {
  GemmArgs gemm;
  const char* panels = nullptr;
  int64_t n = 0;
  int64_t k = 0;
  int64_t num_steps = 0;
  int64_t panel_bytes = 0;
  DType dtype = DType::kF32;
  WeightFormat format = DType::kF32;
  char* scratch = nullptr;               // see kGemmBlockSteps; 64-byte aligned
  const int32_t* input_order = nullptr;  // CodeSource::InputOrder; null: there is none
};

// Rows of x handled in one go: enough to make W's way from memory free, few enough that their copy
// stays in the second-level cache.
inline constexpr int64_t kGemmRowsMax = 256;

// x is copied into blocks of kGemmBlockSteps steps, in which the rows of a tile lie at fixed
// distances (no pointer per row in the inner loop) that are no multiple of 4 KiB (no two rows fight
// for one cache set). A step of x is 4 bytes per row, or 8 where it is fp32 beside bf16 weights.
inline constexpr int64_t kGemmBlockSteps = 256;
inline constexpr int64_t kGemmScratchRowBytes = kGemmBlockSteps * 8 + 64;

// Up to this many rows every thread makes its own copy.
inline constexpr int64_t kGemmOwnCopyRowsMax = 16;

}  // namespace graft
