// adapter_config.json of the methods of PEFT that put virtual tokens in front of a prompt: prompt
// tuning and P-tuning give each an embedding, prefix tuning its keys and values in every layer.
// Read as strictly as LoRA's (peft_config.h). Plain data, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/config.h"

namespace graft {

inline constexpr int32_t kVirtualTokensMax = 16384;

enum class VirtualTokenKind : uint8_t { kEmbedding, kKeysValues };

struct PromptConfig {
  std::string base_model;    // base_model_name_or_path, may be ""
  std::string peft_version;  // may be ""
  VirtualTokenKind kind = VirtualTokenKind::kEmbedding;
  int32_t num_tokens = 0;  // [1, kVirtualTokensMax]
};

// Whether the text is the config of such a method. False of what cannot be read at all, for which
// ParsePeftConfig has the reason.
bool IsPromptConfig(std::string_view text);

// Errors are as ParsePeftConfig's. Sizes in the file that are not `model`'s are refused.
Result<PromptConfig> ParsePromptConfig(std::string_view text, const ModelConfig& model);

}  // namespace graft
