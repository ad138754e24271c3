#include "openai/chat_grammar.h"

#include <algorithm>
#include <optional>
#include <set>
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
  std::vector<std::string> openings;  // that make a text one, in front of what follows
  std::string before_name;
  std::string before_arguments;
  std::string end;
  std::string between;  // "": there is one call
};

// None where a call's form depends on more than is known here.
std::optional<CallForm> CallFormOf(ToolFormat format) {
  if (format == ToolFormat::kHermes) {
    return CallForm{
        {"<tool_call>"}, "\n{\"name\": \"", "\", \"arguments\": ", "}\n</tool_call>", "\n"};
  }
  if (format == ToolFormat::kLlama) {
    return CallForm{{"", "<|python_tag|>"}, "{\"name\": \"", "\", \"parameters\": ", "}", ""};
  }
  return std::nullopt;
}

ApiError UnknownFormError() {
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

// What the arguments of a function are bound to. Where calls are the model's choice, that is its
// schema only if the function is strict.
ApiResult<OrderedJson> ArgumentsFormat(const ChatRequest& request, const OutputOptions& output,
                                       size_t idx, SchemaWork& work) {
  if (!request.tools.must_call && !output.tools[idx].strict) {
    return SchemaFormatOf({{"type", "object"}}, "tools", work);
  }
  const bool is_nested = std::string_view(request.messages.field) == "messages";
  const std::string param =
      "tools[" + std::to_string(idx) + "]." + (is_nested ? "function.parameters" : "parameters");
  return SchemaFormatOf(ParametersOf(request, output, idx), param, work);
}

// A name that calls are bound to stands in the grammar as it is, between quotes, and tells its
// function from the others. `is_first`: of the tools of this name.
std::optional<ApiError> CheckBoundName(const ChatRequest& request, const OutputOptions& output,
                                       size_t idx, bool is_first) {
  const std::string& name = output.tools[idx].name;
  const bool is_nested = std::string_view(request.messages.field) == "messages";
  const std::string param =
      "tools[" + std::to_string(idx) + "]." + (is_nested ? "function.name" : "name");
  const auto refuse = [&](const std::string& why) {
    return InvalidRequestError(param, "'" + param + "' " + why);
  };
  if (!is_first) {
    return refuse("is that of an earlier tool, too, and calls are bound to it: '" + name + "'");
  }
  const auto is_odd = [](unsigned char c) { return c <= 0x20 || c == '"' || c == '\\'; };
  if (std::any_of(name.begin(), name.end(), is_odd)) {
    return refuse("must have no white space, quotes or backslashes: calls are bound to it");
  }
  return std::nullopt;
}

// One tag for each function that may be called; a tag's beginning is without its opening.
ApiResult<std::vector<TagFormat>> CallTags(const ChatRequest& request, const OutputOptions& output,
                                           const CallForm& form, SchemaWork& work) {
  std::vector<TagFormat> tags;
  std::set<std::string_view> names;
  for (size_t i = 0; i < output.tools.size(); ++i) {
    const std::string& name = output.tools[i].name;
    if (!request.tools.named.empty() && name != request.tools.named) continue;
    const bool is_first = names.insert(name).second;
    if (auto error = CheckBoundName(request, output, i, is_first)) return *error;
    ASSIGN_OR_RETURN_ERROR(OrderedJson arguments, ArgumentsFormat(request, output, i, work));
    tags.push_back(
        {form.before_name + name + form.before_arguments, std::move(arguments), form.end});
  }
  return tags;
}

// Calls, and nothing else.
ApiResult<OrderedJson> CallsFormat(const ChatRequest& request, const OutputOptions& output,
                                   const CallForm& form, SchemaWork& work) {
  ASSIGN_OR_RETURN_ERROR(std::vector<TagFormat> tags, CallTags(request, output, form, work));
  std::vector<OrderedJson> calls;
  for (TagFormat& tag : tags) {
    calls.push_back(SequenceFormat({LiteralFormat(form.openings.front() + tag.begin),
                                    std::move(tag.content), LiteralFormat(tag.end)}));
  }
  OrderedJson call = OneOfFormat(std::move(calls));
  if (output.has_one_call || form.between.empty()) return call;
  OrderedJson more = RepeatedFormat(SequenceFormat({LiteralFormat(form.between), call}));
  return SequenceFormat({std::move(call), std::move(more)});
}

// Text, in which whatever begins as a call is one.
ApiResult<OrderedJson> TextWithCallsFormat(const ChatRequest& request, const OutputOptions& output,
                                           const CallForm& form, SchemaWork& work) {
  ASSIGN_OR_RETURN_ERROR(std::vector<TagFormat> calls, CallTags(request, output, form, work));
  std::vector<std::string> triggers;
  std::vector<TagFormat> tags;
  for (const std::string& opening : form.openings) {
    triggers.push_back(opening.empty() ? form.before_name : opening);
    for (const TagFormat& call : calls)
      tags.push_back({opening + call.begin, call.content, call.end});
  }
  return TriggeredFormat(triggers, std::move(tags));
}

// Null: it may be any text.
ApiResult<OrderedJson> ChatFormat(const ChatRequest& request, const OutputOptions* output,
                                  SchemaWork& work) {
  const AnswerFormat& answer = request.params.answer;
  const bool has_tools = output != nullptr && !output->tools.empty();
  const std::optional<CallForm> form =
      has_tools ? CallFormOf(output->tool_format) : std::optional<CallForm>();
  if (request.tools.must_call && has_tools) {
    if (!form.has_value()) return UnknownFormError();
    return CallsFormat(request, *output, *form, work);
  }
  if (answer.is_text()) {
    const bool binds =
        form.has_value() && std::any_of(output->tools.begin(), output->tools.end(),
                                        [](const ToolSpec& tool) { return tool.strict; });
    return binds ? TextWithCallsFormat(request, *output, *form, work) : OrderedJson();
  }
  ApiResult<OrderedJson> format = GrammarFormatOf(answer, work);
  if (!format.ok() || !form.has_value()) return format;
  // An answer of that form, or calls in its place.
  ASSIGN_OR_RETURN_ERROR(OrderedJson calls, CallsFormat(request, *output, *form, work));
  return OneOfFormat({std::move(*format), std::move(calls)});
}

}  // namespace

ApiResult<std::string> ChatGrammarOf(const ChatRequest& request, const OutputOptions* output) {
  SchemaWork work;
  ASSIGN_OR_RETURN_ERROR(OrderedJson format, ChatFormat(request, output, work));
  if (format.is_null()) return std::string();
  const bool reasons = output != nullptr && output->reasoning_format != ReasoningFormat::kNone;
  if (reasons) format = BehindReasoning(*output, std::move(format));
  return GrammarText(std::move(format));
}

}  // namespace graft
