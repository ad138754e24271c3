// Embedding: out[i] = table[tokens[i]] * scale, widened to float, or added to out[i]. A GPU's
// tokens cannot be checked on the host, as the step before may have drawn them there: for a token
// outside of the vocabulary the GPU takes a row of zeros.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

struct EmbeddingArgs {
  const void* table = nullptr;  // [vocab_size, n] of dtype
  DType dtype = DType::kF32;
  int32_t vocab_size = 0;
  const int32_t* tokens = nullptr;  // [num_tokens], each in [0, vocab_size) unless `is_slice`
  float* out = nullptr;             // [num_tokens, n]
  int64_t num_tokens = 0;
  int64_t n = 0;
  float scale = 1.0f;
  bool accumulate = false;  // adds to out
  // The table has the words from first_word on, and the rows of others are zeros: ranks that have
  // the other words sum them up.
  bool is_slice = false;
  int32_t first_word = 0;
};

void Embedding(const EmbeddingArgs& args, Stream& stream);

}  // namespace graft
