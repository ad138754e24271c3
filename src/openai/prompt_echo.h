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

// The echo of the prompt `tokens`. `given` is the text that they were made of, or null where the
// client sent ids or a part of the tokens is gone: that text is the echo, where the tokens can be
// laid over it or no offsets are wanted. Else the echo is what the tokens decode to. Shared by all
// choices of a prompt, which may be long.
std::shared_ptr<const PromptEcho> EchoPrompt(const Tokenizer& tokenizer,
                                             std::span<const int32_t> tokens,
                                             const std::string* given, bool skips_special_tokens,
                                             bool with_offsets);

}  // namespace graft
