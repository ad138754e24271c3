// Sampling: logits to tokens, one row per sequence. Each row depends on its own logits, settings
// and (seed, draw_idx) alone. Order, as in HF and vLLM: penalties, logit_bias, banned tokens and
// the mask, temperature, top_k, top_p, min_p, draw. Log-probabilities are of the model's own
// distribution, before all of these. A logit of -Inf is a probability of zero. docs/sampling.md has
// the details.
//
// On a GPU, logits are on the device, `out` is page-locked memory that holds the results once the
// stream is synchronised (its lists beyond num_top are left as they were), and everything else is
// memory of the host that is read before the call returns. Both functions launch what the settings
// ask for, so they do not belong in a captured graph, but after one.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "base/token_mask.h"
#include "tensor/allocations.h"
#include "tensor/buffer.h"
#include "tensor/cuda_memory.h"
#include "tensor/stream.h"

namespace graft {

inline constexpr int32_t kLogprobsMax = 20;

struct TokenCount {
  int32_t token = 0;
  int32_t num_output = 0;  // times in the output so far
  bool in_prompt = false;
};

struct SamplingRow {
  float temperature = 0.0f;  // finite; 0: greedy, the lowest id among equals
  float top_p = 1.0f;
  int32_t top_k = 0;  // 0: off
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  uint64_t seed = 0;
  uint64_t draw_idx = 0;               // output tokens drawn so far
  int32_t num_logprobs = -1;           // -1: none; k: the k likeliest, k <= kLogprobsMax
  const TokenCount* counts = nullptr;  // [num_counts], each token once; for the penalties
  int32_t num_counts = 0;
  const std::pair<int32_t, float>* logit_bias = nullptr;  // [num_logit_bias], each token once
  int32_t num_logit_bias = 0;
  const int32_t* banned = nullptr;  // [num_banned] token ids that must not be drawn
  int32_t num_banned = 0;
  // [NumMaskWords(vocab_size)] the tokens that may be drawn; null: all.
  const uint32_t* mask = nullptr;
};

struct SampledToken {
  int32_t token = -1;
  float logprob = 0.0f;     // natural logarithm, if any were asked for; -Inf of a logit of -Inf
  bool not_finite = false;  // the logits held NaN or +Inf, or nothing could be drawn: token is -1
  int32_t num_top = 0;      // at most as asked for; tokens of probability zero are left out
  int32_t top_tokens[kLogprobsMax] = {};  // likeliest first, equals by lower id
  float top_logprobs[kLogprobsMax] = {};
};

// What the two functions need on a GPU beside their operands; the CPU needs none. The caller owns
// it and uses it on one stream, which has done the call before the last.
struct SamplingScratch {
  SamplingScratch() = default;
  // For calls of up to rows_max rows. Empty on the CPU.
  SamplingScratch(int32_t rows_max, int32_t vocab_size, const Device& device);
  // What that allocates, without the lists.
  static BytesNeeded BytesFor(int32_t rows_max, int32_t vocab_size, const Device& device);

  int32_t rows_max = 0;
  int32_t vocab_size = 0;
  // What the rows say, as the GPU reads it. Calls take turns with them.
  struct Settings {
    PinnedBuffer rows;
    PinnedBuffer lists;  // their counts, biases and bans; grows to the longest seen
  };
  std::array<Settings, 2> settings;
  uint32_t num_calls = 0;
  Buffer adjusted;  // [rows_max, vocab_size] logits after penalties, biases and bans
  Buffer greedy;    // what the blocks that share a row tell each other
};

struct SamplingArgs {
  const float* logits = nullptr;  // [num_rows, vocab_size], left as it is
  int32_t vocab_size = 0;
  const SamplingRow* rows = nullptr;  // [num_rows]
  SampledToken* out = nullptr;        // [num_rows]
  int32_t num_rows = 0;
  SamplingScratch* scratch = nullptr;  // on a GPU
  // [num_rows] on the GPU, or null: gets each row's token too (-1 where there is none), so that the
  // next step can embed it without the host.
  int32_t* device_tokens = nullptr;
};

void Sample(const SamplingArgs& args, Stream& stream);

struct TokenLogprobsArgs {
  const float* logits = nullptr;  // [num_rows, vocab_size]
  int32_t vocab_size = 0;
  const int32_t* tokens = nullptr;  // [num_rows]: their log-probabilities are computed,
  int32_t num_top = 0;              // and those of the num_top likeliest tokens
  SampledToken* out = nullptr;      // [num_rows]
  int32_t num_rows = 0;
  SamplingScratch* scratch = nullptr;  // on a GPU
};

// Log-probabilities of given tokens, for prompt log-probabilities.
void TokenLogprobs(const TokenLogprobsArgs& args, Stream& stream);

}  // namespace graft
