// LoraPadded: what Lora does, done without kernels that gather (S-LoRA's bmm, section 6.1), which
// `graft-bench ops` compares Lora with: A and B of every segment are copied into contiguous memory,
// padded with zeros to one rank, and a batched product runs over the copies. The product is Lora's
// own, faster than a library's batched one for shapes like these: copies and padding are all that
// differs.
#pragma once

#include <cstdint>

#include "kernels/common/bench.h"
#include "kernels/lora/lora.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

struct LoraPaddedArgs {
  LoraArgs lora;            // a segment per request, as a batched product has a matrix for each
  int32_t rank = 0;         // of the copies: no less than any in use, no more than lora.h_stride
  void* scratch = nullptr;  // LoraPaddedBytes, on a border of 256 bytes, in the device's memory
};

// `n`: columns of all slices together.
int64_t LoraPaddedBytes(int64_t num_segments, int32_t num_slices, int64_t k, int64_t n,
                        int32_t rank, DType dtype);

void LoraPadded(const LoraPaddedArgs& args, Stream& stream);

// The op's bench, beside Lora's own figures for the same adapters.
void BenchLoraPadded(OpBench& bench);

}  // namespace graft
