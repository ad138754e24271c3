// In which form a model writes calls of tools and its reasoning, told by a name or by the model's
// chat template. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/output/call_reader.h"
#include "text/output/reasoning_splitter.h"

namespace graft {

enum class ToolFormat : uint8_t {
  kNone,
  kHermes,  // also Qwen2.5 and Qwen3
  kLlama,   // Llama 3.x
  kMistral,
  kDeepSeek,   // V3, R1, V3.1
  kPythonic,   // Llama 4 and others
  kGemma,      // FunctionGemma, Gemma 4, and what prompts make Gemma 3 write
  kQwenCoder,  // Qwen3-Coder
  kGlm,        // GLM-4.5 and later
};

// What the template of a model shows of the calls in a conversation; kNone where it shows none, or
// a form that is not known here.
ToolFormat DetectToolFormat(std::string_view chat_template);
ReasoningFormat DetectReasoningFormat(std::string_view chat_template);

// `tools` must outlive the openers.
std::vector<CallOpener> OpenersOf(ToolFormat format, const std::vector<ToolSpec>& tools);

// The marks of a format that may be special tokens, which are no text otherwise.
std::vector<std::string_view> MarksOf(ToolFormat format);

}  // namespace graft
