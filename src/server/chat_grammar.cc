#include "server/chat_grammar.h"

#include <utility>
#include <vector>

#include "grammar/grammar_text.h"

namespace graft {
namespace {

// Reasoning comes first and is free, and line feeds may follow it.
OrderedJson BehindReasoning(const OutputOptions& output, OrderedJson format) {
  const std::string_view open = ReasoningOpeningMark(output.reasoning_format);
  const std::string_view close = ReasoningClosingMark(output.reasoning_format);
  OrderedJson blanks = OptionalFormat(OneOfFormat({LiteralFormat("\n"), LiteralFormat("\n\n")}));
  if (output.in_reasoning) {
    return SequenceFormat({TextUntilFormat("", close), std::move(blanks), std::move(format)});
  }
  OrderedJson reasoning = SequenceFormat({TextUntilFormat(open, close), std::move(blanks)});
  return SequenceFormat({OptionalFormat(std::move(reasoning)), std::move(format)});
}

}  // namespace

ApiResult<std::string> ChatGrammarOf(const ChatRequest& request, const OutputOptions* output) {
  const AnswerFormat& answer = request.params.answer;
  if (answer.is_text()) return std::string();
  ApiResult<OrderedJson> format = GrammarFormatOf(answer);
  if (!format.ok()) return format.error();
  const bool reasons = output != nullptr && output->reasoning_format != ReasoningFormat::kNone;
  if (reasons) *format = BehindReasoning(*output, std::move(*format));
  return GrammarText(std::move(*format));
}

}  // namespace graft
