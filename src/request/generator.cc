#include "request/generator.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

namespace graft {
namespace {

// With the digits that tell the number from its neighbours.
template <typename T>
Status RangeError(const std::string& name, const std::string& range, T value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return InvalidArgumentError(name + " must be " + range + ", got " + std::string(text, end));
}

Status CheckToken(const char* name, int32_t token, int32_t vocab_size) {
  if (token >= 0 && token < vocab_size) return OkStatus();
  return InvalidArgumentError(std::string(name) + " holds token id " + std::to_string(token) +
                              ", the vocabulary ends at " + std::to_string(vocab_size - 1));
}

Status CheckPenalty(const char* name, float value) {
  if (value >= -2.0f && value <= 2.0f) return OkStatus();
  return RangeError(name, "between -2 and 2", value);
}

// A token's bias is one: of two, which one counted would be chance.
Status CheckOnce(std::vector<std::pair<int32_t, float>> biases) {
  std::sort(biases.begin(), biases.end());
  const auto is_same = [](const auto& a, const auto& b) { return a.first == b.first; };
  const auto twice = std::adjacent_find(biases.begin(), biases.end(), is_same);
  if (twice == biases.end()) return OkStatus();
  return InvalidArgumentError("logit_bias holds token id " + std::to_string(twice->first) +
                              " twice");
}

}  // namespace

bool AllowsNone(const SamplingParams& params, std::vector<int32_t> banned, int32_t vocab_size) {
  std::sort(banned.begin(), banned.end());
  banned.erase(std::unique(banned.begin(), banned.end()), banned.end());
  const TokenSet& allowed = params.allowed_token_ids;
  if (allowed.empty()) return static_cast<int64_t>(banned.size()) >= vocab_size;
  return std::all_of(allowed.begin(), allowed.end(), [&banned](int32_t token) {
    return std::binary_search(banned.begin(), banned.end(), token);
  });
}

Status CheckCanDraw(const Request& request, const std::vector<int32_t>& end_token_ids,
                    int32_t vocab_size) {
  const SamplingParams& sampling = request.sampling;
  if (sampling.tokens_max == 0) return OkStatus();
  std::vector<int32_t> banned;
  if (request.output_tokens.size() < static_cast<size_t>(std::max(sampling.tokens_min, 0))) {
    banned = sampling.stop_token_ids;
    if (!sampling.ignore_eos) {
      banned.insert(banned.end(), end_token_ids.begin(), end_token_ids.end());
    }
  }
  for (const std::vector<int32_t>& word : sampling.bad_words) {
    if (word.size() == 1) banned.push_back(word.front());
  }
  if (!AllowsNone(sampling, std::move(banned), vocab_size)) return OkStatus();
  const char* const field = sampling.allowed_token_ids.empty() ? "bad_words" : "allowed_token_ids";
  return InvalidArgumentError(std::string(field) +
                              " leaves no token to draw: what 'bad_words' names is not drawn, nor "
                              "what ends the answer before 'min_tokens'");
}

std::string ToString(const RequestId& id) {
  return std::to_string(id.frontend) + ":" + std::to_string(id.number);
}

Status RefuseUnserved(const Request& request) {
  const auto refuse = [](const std::string& what) {
    return UnimplementedError(what + " is not served; send the request without it");
  };
  if (request.adapters.size() > Request::kAdaptersMax) {
    return RangeError("adapters", "at most " + std::to_string(Request::kAdaptersMax),
                      request.adapters.size());
  }
  for (const AdapterUse& use : request.adapters) {
    // Written so that NaN is refused.
    if (use.weight != 0.0f && std::abs(use.weight) <= Request::kAdapterWeightMax) continue;
    return RangeError("adapters: a weight", "between -100 and 100, and not 0", use.weight);
  }
  if (request.activation_position < 0) {
    return RangeError("activation_position", "0 (as the adapter says) or more",
                      request.activation_position);
  }
  if (request.draft_tokens_max < -1) {
    return RangeError("draft_tokens_max", "-1 (as the engine likes), 0 or more",
                      request.draft_tokens_max);
  }
  if (request.pooling < Pooling::kNone || request.pooling > Pooling::kMean) {
    return refuse("pooling of that kind");
  }
  if (request.pooling != Pooling::kNone && request.sampling.tokens_max != 0) {
    return RangeError("tokens_max", "0 beside pooling", request.sampling.tokens_max);
  }
  if (!(request.tenant_weight > 0.0f) || std::isinf(request.tenant_weight)) {
    return RangeError("tenant_weight", "above 0", request.tenant_weight);
  }
  return OkStatus();
}

Status ValidateSamplingParams(const SamplingParams& params, int32_t vocab_size) {
  // Written so that NaN fails every comparison.
  if (!(params.temperature >= 0.0f && params.temperature <= 100.0f)) {
    return RangeError("temperature", "between 0 and 100", params.temperature);
  }
  if (!(params.top_p > 0.0f && params.top_p <= 1.0f)) {
    return RangeError("top_p", "above 0 and at most 1", params.top_p);
  }
  if (params.top_k < 0) return RangeError("top_k", "0 (off) or more", params.top_k);
  if (!(params.min_p >= 0.0f && params.min_p <= 1.0f)) {
    return RangeError("min_p", "between 0 and 1", params.min_p);
  }
  // Beyond that logits could leave fp32's range.
  if (!(params.repetition_penalty >= 0.01f && params.repetition_penalty <= 100.0f)) {
    return RangeError("repetition_penalty", "between 0.01 and 100", params.repetition_penalty);
  }
  RETURN_IF_ERROR(CheckPenalty("frequency_penalty", params.frequency_penalty));
  RETURN_IF_ERROR(CheckPenalty("presence_penalty", params.presence_penalty));
  for (const auto& [token, bias] : params.logit_bias) {
    RETURN_IF_ERROR(CheckToken("logit_bias", token, vocab_size));
    if (!(bias >= -100.0f && bias <= 100.0f)) {
      return RangeError("logit_bias", "between -100 and 100", bias);
    }
  }
  RETURN_IF_ERROR(CheckOnce(params.logit_bias));
  if (params.num_logprobs < -1 || params.num_logprobs > 20) {
    return RangeError("logprobs", "between 0 and 20", params.num_logprobs);
  }
  if (params.tokens_max < 0) return RangeError("max_tokens", "0 or more", params.tokens_max);
  if (params.tokens_min < 0 || params.tokens_min > params.tokens_max) {
    return RangeError("min_tokens", "between 0 and max_tokens", params.tokens_min);
  }
  for (const int32_t token : params.stop_token_ids) {
    RETURN_IF_ERROR(CheckToken("stop_token_ids", token, vocab_size));
  }
  for (const int32_t token : params.allowed_token_ids) {
    RETURN_IF_ERROR(CheckToken("allowed_token_ids", token, vocab_size));
  }
  for (const std::vector<int32_t>& word : params.bad_words) {
    if (word.empty()) return InvalidArgumentError("bad_words must not hold an empty one");
    for (const int32_t token : word) RETURN_IF_ERROR(CheckToken("bad_words", token, vocab_size));
  }
  return OkStatus();
}

}  // namespace graft
