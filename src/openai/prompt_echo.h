// A completion's prompt as its answer repeats it. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace graft {

struct PromptEcho {
  std::string text;
  // For each token, where its text begins in `text`, in code points. Empty if not asked for.
  std::vector<int32_t> offsets;
};

int64_t NumCodePoints(std::string_view text);

// The echo of the prompt `tokens`. `given` is the text from which the tokens were made; null if the
// client sent ids, or if a part of the tokens is gone. The echo is that text if the tokens can be
// aligned with it or no offsets are wanted; otherwise it is the decoded tokens. All choices of a
// prompt share it, since it may be long.
std::shared_ptr<const PromptEcho> EchoPrompt(const Tokenizer& tokenizer,
                                             std::span<const int32_t> tokens,
                                             const std::string* given, bool skips_special_tokens,
                                             bool with_offsets);

}  // namespace graft
