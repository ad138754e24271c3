// VirtualEmbedding: rows of the residual stream that are an adapter's own vectors instead of the
// embeddings of tokens (prompt tuning): out[place + i] = row token_begin + i, widened to float.
#pragma once

#include <cstdint>

#include "kernels/common/virtual_rows.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

struct VirtualEmbeddingArgs {
  const VirtualRows* table = nullptr;  // by adapter slot; rows are [n] of dtype
  DType dtype = DType::kF32;
  const VirtualRun* runs = nullptr;  // [num_runs]; `place` is the first row of out
  int32_t num_runs = 0;
  int32_t run_tokens_max = 0;  // no run is longer
  float* out = nullptr;        // [rows, n]; other rows stay as they are
  int64_t n = 0;
};

void VirtualEmbedding(const VirtualEmbeddingArgs& args, Stream& stream);

}  // namespace graft
