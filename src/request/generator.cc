#include "request/generator.h"

#include <cmath>
#include <cstdio>
#include <string>

namespace graft {
namespace {

Status RangeError(const std::string& name, const std::string& range, double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return InvalidArgumentError(name + " must be " + range + ", got " + text);
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

}  // namespace

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
