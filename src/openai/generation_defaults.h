// The settings of requests that do not say how to draw: a model's generation_config.json, as vLLM
// reads it. Plain data; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "request/request.h"

namespace graft {

struct GenerationDefaults {
  // temperature, top_p, top_k, min_p and repetition_penalty; the rest is as everywhere.
  SamplingParams sampling;
  std::optional<int32_t> tokens_max;  // max_new_tokens
  // Fields with values that no request could have, and why: they are as if they were not there.
  std::vector<std::string> ignored;
};

// The defaults in `model_dir`/generation_config.json, or OpenAI's where there is no such file or it
// is no JSON object, which the model's config tells (ignored_of_generation).
Result<GenerationDefaults> LoadGenerationDefaults(const std::string& model_dir);

}  // namespace graft
