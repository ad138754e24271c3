// Waist 1, downwards: what a client wants, as plain data. Made on HTTP threads, owned by the engine
// thread after Submit, and able to cross an RPC border field by field.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace graft {

using RequestId = uint64_t;

// How the next token is drawn. Ranges are checked by ValidateSamplingParams; order of application:
// repetition, frequency and presence penalties, logit_bias, temperature, top_k, top_p, min_p.
struct SamplingParams {
  float temperature = 1.0f;         // >= 0; 0 is greedy
  float top_p = 1.0f;               // (0, 1]
  int32_t top_k = 0;                // 0: off
  float min_p = 0.0f;               // [0, 1]; share of the likeliest token's probability
  uint64_t seed = 0;                // the front end draws one where the client gave none
  float repetition_penalty = 1.0f;  // > 0, over prompt and output (as HF)
  float frequency_penalty = 0.0f;   // [-2, 2], over output tokens
  float presence_penalty = 0.0f;    // [-2, 2], over output tokens
  std::vector<std::pair<int32_t, float>> logit_bias;  // (token id, [-100, 100])
  int32_t num_logprobs = -1;  // -1: none; 0: the chosen token's; k: and the k likeliest (k <= 20)
  bool prompt_logprobs = false;  // also for every prompt token, with num_logprobs alternatives
  int32_t tokens_max = 16;       // output tokens
  int32_t tokens_min = 0;        // EOS and stop ids are not drawn before this many
  std::vector<int32_t> stop_token_ids;
  bool ignore_eos = false;
};

struct Request {
  RequestId id = 0;    // unique in this process
  std::string tenant;  // "" without keys
  // Requests share pages of prompts with those of their tenant that have the same.
  std::string cache_salt;
  // Content hash of the adapter, or what AdapterInfo::key() gives before it was first read; "" for
  // the base model.
  std::string adapter_hash;
  std::vector<int32_t> prompt_tokens;
  SamplingParams sampling;
  int64_t arrival_ns = 0;  // Clock::NowNs() when it was accepted
};

}  // namespace graft
