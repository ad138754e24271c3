#include "text/output/output_format.h"

#include "base/check.h"

namespace graft {
namespace {

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

ToolFormat DetectToolFormat(std::string_view chat_template) {
  if (Has(chat_template, "[TOOL_CALLS]")) return ToolFormat::kMistral;
  if (Has(chat_template, "<｜tool▁calls▁begin｜>")) return ToolFormat::kDeepSeek;
  if (Has(chat_template, "<tool_call>")) {
    // Qwen3-Coder and GLM have the mark, and XML behind it.
    if (Has(chat_template, "<function=")) return ToolFormat::kQwenCoder;
    return Has(chat_template, "<arg_key>") ? ToolFormat::kGlm : ToolFormat::kHermes;
  }
  if (Has(chat_template, "<|tool_call>") || Has(chat_template, "<start_function_call>")) {
    return ToolFormat::kGemma;
  }
  if (Has(chat_template, "<|python_start|>")) return ToolFormat::kPythonic;
  const bool is_llama = Has(chat_template, "<|start_header_id|>") || Has(chat_template, "ipython");
  const bool has_call =
      Has(chat_template, "\"parameters\"") || Has(chat_template, "<|python_tag|>");
  return is_llama && has_call ? ToolFormat::kLlama : ToolFormat::kNone;
}

ReasoningFormat DetectReasoningFormat(std::string_view chat_template) {
  if (Has(chat_template, "[THINK]")) return ReasoningFormat::kMistral;
  return Has(chat_template, "<think>") ? ReasoningFormat::kThink : ReasoningFormat::kNone;
}

std::vector<CallOpener> OpenersOf(ToolFormat format, const std::vector<ToolSpec>& tools) {
  switch (format) {
    case ToolFormat::kNone:
      return {};
    case ToolFormat::kHermes:
      return HermesOpeners();
    case ToolFormat::kLlama:
      return LlamaOpeners(tools);
    case ToolFormat::kMistral:
      return MistralOpeners();
    case ToolFormat::kDeepSeek:
      return DeepSeekOpeners();
    case ToolFormat::kPythonic:
      return PythonicOpeners(tools);
    case ToolFormat::kGemma:
      return GemmaOpeners(tools);
    case ToolFormat::kQwenCoder:
      return QwenCoderOpeners(tools);
    case ToolFormat::kGlm:
      return GlmOpeners(tools);
  }
  CHECK(false) << "a format of tools that is none";
  return {};
}

std::vector<std::string_view> MarksOf(ToolFormat format) {
  switch (format) {
    case ToolFormat::kNone:
      return {};
    case ToolFormat::kHermes:
      return {"<tool_call>", "</tool_call>"};
    case ToolFormat::kLlama:
      return {"<|python_tag|>"};
    case ToolFormat::kMistral:
      return {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"};
    case ToolFormat::kDeepSeek:
      return {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>",
              "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"};
    case ToolFormat::kPythonic:
      return {"<|python_start|>", "<|python_end|>"};
    case ToolFormat::kGemma:
      return {"<start_function_call>", "<end_function_call>", "<escape>",
              "<|tool_call>",          "<tool_call|>",        "<|\"|>"};
    case ToolFormat::kQwenCoder:
      return {"<tool_call>", "</tool_call>"};
    case ToolFormat::kGlm:
      return {"<tool_call>", "</tool_call>", "<arg_key>",
              "</arg_key>",  "<arg_value>",  "</arg_value>"};
  }
  CHECK(false) << "a format of tools that is none";
  return {};
}

}  // namespace graft
