// LoraPadded does what Lora does, without kernels that gather (S-LoRA's bmm, section 6.1).
// `graft-bench ops` compares Lora with it. It copies A and B of every segment into contiguous
// memory, pads them with zeros to one rank, and runs a batched product over the copies. The product
// is Lora's own, which is faster than a library's at these shapes, so copies and padding are the
// only difference.
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
