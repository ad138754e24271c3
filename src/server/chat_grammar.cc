#include "server/chat_grammar.h"

#include <string>
#include <string_view>
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

// How a call is written around its arguments.
struct CallForm {
  std::string before_name;
  std::string before_arguments;
  std::string end;
  std::string between;  // "": there is one call
};

ApiResult<CallForm> CallFormOf(ToolFormat format) {
  if (format == ToolFormat::kHermes) {
    return CallForm{"<tool_call>\n{\"name\": \"", "\", \"arguments\": ", "}\n</tool_call>", "\n"};
  }
  if (format == ToolFormat::kLlama) {
    return CallForm{"{\"name\": \"", "\", \"parameters\": ", "}", ""};
  }
  ApiError error = InvalidRequestError(
      "tool_choice",
      "'tool_choice' \"required\" and a function's name are served for models that write calls as "
      "Hermes, Qwen or Llama 3 do, and this one writes them otherwise; send \"auto\" or \"none\"");
  error.code = "unsupported";
  return error;
}

// As the client wrote it, where that is known: an answer has its properties in that order.
OrderedJson ParametersOf(const ChatRequest& request, const OutputOptions& output, size_t idx) {
  const OrderedJson& shown = request.shown_tools;
  if (shown.is_array() && idx < shown.size()) {
    const OrderedJson& tool = shown[idx].contains("function") ? shown[idx]["function"] : shown[idx];
    if (tool.contains("parameters") && tool["parameters"].is_object()) return tool["parameters"];
  }
  const Json& parameters = output.tools[idx].parameters;
  return parameters.is_null() ? OrderedJson{{"type", "object"}} : OrderedJson(parameters);
}

ApiResult<OrderedJson> CallsFormat(const ChatRequest& request, const OutputOptions& output) {
  ApiResult<CallForm> form = CallFormOf(output.tool_format);
  if (!form.ok()) return form.error();
  const bool is_nested = std::string_view(request.messages.field) == "messages";
  std::vector<OrderedJson> calls;
  for (size_t i = 0; i < output.tools.size(); ++i) {
    const std::string& name = output.tools[i].name;
    if (!request.tools.named.empty() && name != request.tools.named) continue;
    const std::string param =
        "tools[" + std::to_string(i) + "]." + (is_nested ? "function.parameters" : "parameters");
    ApiResult<OrderedJson> arguments = SchemaFormatOf(ParametersOf(request, output, i), param);
    if (!arguments.ok()) return arguments.error();
    calls.push_back(
        SequenceFormat({LiteralFormat(form->before_name + name + form->before_arguments),
                        std::move(*arguments), LiteralFormat(form->end)}));
  }
  OrderedJson call = OneOfFormat(std::move(calls));
  if (output.has_one_call || form->between.empty()) return call;
  OrderedJson more = RepeatedFormat(SequenceFormat({LiteralFormat(form->between), call}));
  return SequenceFormat({std::move(call), std::move(more)});
}

}  // namespace

ApiResult<std::string> ChatGrammarOf(const ChatRequest& request, const OutputOptions* output) {
  const AnswerFormat& answer = request.params.answer;
  const bool calls = request.tools.must_call && output != nullptr;
  if (answer.is_text() && !calls) return std::string();
  ApiResult<OrderedJson> format = calls ? CallsFormat(request, *output) : GrammarFormatOf(answer);
  if (!format.ok()) return format.error();
  const bool reasons = output != nullptr && output->reasoning_format != ReasoningFormat::kNone;
  if (reasons) *format = BehindReasoning(*output, std::move(*format));
  return GrammarText(std::move(*format));
}

}  // namespace graft
