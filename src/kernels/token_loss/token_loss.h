// Cross entropy of logits against a few tokens and their probabilities: one token of probability 1
// is next-token prediction, a teacher's likeliest tokens are distillation (Cartridges' loss: what
// the stored tokens leave of probability is not shared out among them, and may be that of all
// others together). Logits become their gradients. fp32. Each row depends on itself alone.
//
// Where a model scales and caps what its head returns, logits are what came of that, and the
// gradients are by what the head returned: with logits y = c tanh(s z / c), dz = s (1 - (y / c)^2)
// dy.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

// One row has no more choices than these.
inline constexpr int32_t kTokenChoicesMax = 1024;

// The choice of all tokens that are none of the row's other choices, which then are distinct.
inline constexpr int32_t kTokenRest = -1;
// The share of the softmax that kTokenRest's tokens are counted with at least. Their sum is the
// difference of two sums of floats, which could cancel to zero or less.
inline constexpr double kRestShareMin = 1e-6;

// loss = -sum over choices of p log(softmax), of kTokenRest's tokens the sum of their softmax;
// d_logits = weight * (sum of p * softmax - p), with p of kTokenRest shared out among its tokens as
// the softmax is.
struct TokenLossArgs {
  float* logits = nullptr;  // [num_rows, vocab_size], replaced by the gradients
  int64_t num_rows = 0;
  int64_t vocab_size = 0;
  int32_t num_choices = 0;  // per row
  // [num_rows, num_choices], each in [0, vocab_size) or kTokenRest
  const int32_t* ids = nullptr;
  const float* probabilities = nullptr;  // [num_rows, num_choices]
  const float* weights = nullptr;        // [num_rows]
  double* losses = nullptr;              // [num_rows], without weight
  float logit_scale = 1.0f;              // s: what the head's results were multiplied by
  float logit_cap = 0.0f;                // c; 0: they were not capped
  // On a GPU alone: [num_rows, vocab_size] of d_dtype, for the gradients, and the logits stay;
  // null: in place of the logits.
  void* d_logits = nullptr;
  DType d_dtype = DType::kF32;
};

void TokenLoss(const TokenLossArgs& args, Stream& stream);

}  // namespace graft
