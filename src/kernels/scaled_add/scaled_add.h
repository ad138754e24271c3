// y = scale * x rounded to y's dtype, or y += scale * x. It serves what a block adds to the
// residual stream where the model scales that, embeddings and logits that it scales (all
// Granite's), and the residual stream itself where a block reads it without a norm (OLMo 2's).
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

struct ScaledAddArgs {
  const float* x = nullptr;  // [n]
  void* y = nullptr;         // [n] of y_dtype; may be x itself where nothing is added
  DType y_dtype = DType::kF32;
  int64_t n = 0;
  float scale = 1.0f;
  bool accumulate = false;  // added to y, which is fp32 and not x
};

void ScaledAdd(const ScaledAddArgs& args, Stream& stream);

}  // namespace graft
