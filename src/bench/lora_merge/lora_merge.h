// LoraMerge: W' = W + scale B A, one adapter's share of a dense projection added to a copy of its
// weight (S-LoRA, section 6.3: x(W + AB)). W itself is not changed. graft-bench measures with it
// what a merge costs; no server merges. Sums are fp32, over the rank in ascending order on the CPU.
// The sum of W and the product is rounded once, to the weight's dtype. On a GPU, call Synchronize
// before a Gemm that reads the result, because Gemm may read a weight before it waits for earlier
// kernels.
#pragma once

#include <cstdint>

#include "kernels/common/bench.h"
#include "kernels/gemm/gemm.h"
#include "kernels/lora/lora.h"
#include "tensor/stream.h"

namespace graft {

struct LoraMergeArgs {
  const GemmWeight* base = nullptr;  // [n, k]
  GemmWeight* merged = nullptr;      // GemmWeight::Like(*base); all of it is written
  // [num_slices] of base's dtype, in base's device's memory with their tables and rows. A module
  // that the adapter leaves alone has rank 0, and its rows keep their bits.
  const LoraMatrix* matrices = nullptr;
  int32_t num_slices = 1;                // [1, kLoraSlicesMax]
  int64_t slice_n[kLoraSlicesMax] = {};  // rows of W of each slice, n together
};

void LoraMerge(const LoraMergeArgs& args, Stream& stream);

// The op's bench.
void BenchLoraMerge(OpBench& bench);

}  // namespace graft
