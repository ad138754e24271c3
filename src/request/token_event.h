// Waist 1, upwards: one event per token of a request, the last one with a finish reason. Plain
// data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"

namespace graft {

enum class FinishReason : uint8_t {
  kNone,       // more follows
  kStop,       // EOS or a stop token id
  kLength,     // tokens_max or the context length
  kCancelled,  // Cancel was called
  kError,      // `status` says why
};

// For logs and metrics; "" of kNone.
constexpr const char* NameOf(FinishReason reason) {
  constexpr const char* kNames[] = {"", "stop", "length", "cancelled", "error"};
  return kNames[static_cast<size_t>(reason)];
}

struct TokenLogprob {
  int32_t token = -1;
  float logprob = 0.0f;  // natural logarithm, of the model's own distribution (before temperature)
};

struct Usage {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  // of prompt_tokens, those found in the prefix cache
  int32_t output_tokens = 0;
};

struct TokenEvent {
  int32_t token = -1;  // -1: no token comes with this event
  float logprob = 0.0f;
  std::vector<TokenLogprob> top_logprobs;  // likeliest first, if asked for
  // Filled on the first event only, if prompt_logprobs was asked for: entry i is prompt token i;
  // entry 0 has no prediction and is NaN. prompt_top_logprobs[i] may be empty.
  std::vector<TokenLogprob> prompt_logprobs;
  std::vector<std::vector<TokenLogprob>> prompt_top_logprobs;
  std::vector<float> embedding;  // on the last event, if pooling was asked for
  FinishReason finish_reason = FinishReason::kNone;
  Status status;  // not OK only with kError
  Usage usage;    // filled on the last event
};

}  // namespace graft
