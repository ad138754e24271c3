#include "openai/responses/responses_request.h"

#include <algorithm>
#include <utility>

#include "http/field_reader.h"
#include "openai/api_fields.h"
#include "openai/responses/input_items.h"
#include "openai/shared_fields.h"
#include "openai/token_logprobs.h"

namespace graft {
namespace {

// What only items of tools would have that do not run here is harmless to ask for.
void ReadInclude(FieldReader& reader, GenerationParams* params) {
  const Json* json = reader.Take("include");
  if (json == nullptr) return;
  if (!json->is_array()) return reader.Fail("include", "must be a list of strings");
  for (size_t i = 0; i < json->size() && !reader.failed(); ++i) {
    const std::string path = "include[" + std::to_string(i) + "]";
    const Json object = {{path, (*json)[i]}};
    FieldReader item(object, "");
    const std::string name = item.OneOf(
        path.c_str(), {"message.output_text.logprobs", "reasoning.encrypted_content",
                       "file_search_call.results", "web_search_call.results",
                       "web_search_call.action.sources", "message.input_image.image_url",
                       "computer_call_output.output.image_url", "code_interpreter_call.outputs"});
    if (auto error = item.Finish()) reader.Fail(*error);
    if (name == "message.output_text.logprobs") params->logprobs = true;
  }
}

void ReadLogprobs(FieldReader& reader, GenerationParams* params) {
  ReadInclude(reader, params);
  int32_t top = 0;
  reader.Int("top_logprobs", 0, 20, &top);
  if (top > 0 && !params->logprobs) {
    reader.Fail("top_logprobs", "needs \"message.output_text.logprobs\" in include");
  }
  if (params->logprobs) params->sampling.num_logprobs = params->num_top_logprobs = top;
}

void ReadReasoning(FieldReader& reader, ChatRequest* chat) {
  const Json* json = reader.Take("reasoning");
  if (json == nullptr) return;
  FieldReader nested(*json, "reasoning.");
  nested.String("effort", &chat->reasoning_effort, kNameBytesMax);
  nested.Refuse("summary", "auto");
  nested.Refuse("generate_summary", "auto");
  nested.Refuse("mode", "standard");
  nested.Refuse("context", "auto");
  if (auto error = nested.Finish()) reader.Fail(*error);
}

void ReadText(FieldReader& reader, ResponsesRequest* request) {
  const Json* json = reader.Take("text");
  if (json == nullptr) return;
  FieldReader nested(*json, "text.");
  nested.Refuse("verbosity", "medium");
  if (const Json* format = nested.Take("format")) {
    ReadTextFormat(nested, *format, &request->chat.params.answer);
    request->text_format = *format;
  }
  if (auto error = nested.Finish()) reader.Fail(*error);
}

void ReadStreamFields(FieldReader& reader, GenerationParams* params) {
  reader.Bool("stream", &params->stream);
  const Json* options = reader.Take("stream_options");
  if (options == nullptr || !params->stream) return;  // nothing is streamed
  FieldReader nested(*options, "stream_options.");
  nested.Ignore({"include_obfuscation"});
  if (auto error = nested.Finish()) reader.Fail(*error);
}

// Templates are shown tools as chats have them.
void NestTools(OrderedJson* tools) {
  for (OrderedJson& tool : *tools) {
    OrderedJson function = std::move(tool);
    function.erase("type");
    tool = {{"type", "function"}, {"function", std::move(function)}};
  }
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json();
}

// With no more digits than tell it from its neighbours.
Json Short(float number) {
  std::string text;
  AppendLogprob(number, &text);
  return ParseJson(text).value();
}

Json OrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

ApiResult<ResponsesRequest> ParseResponsesRequest(const Json& json, std::string_view body,
                                                  const RequestLimits& limits,
                                                  const GenerationDefaults& defaults) {
  ResponsesRequest request;
  ChatRequest& chat = request.chat;
  chat.messages.field = "input";
  chat.params.sampling = defaults.sampling;
  chat.params.tokens_default = defaults.tokens_max;
  FieldReader reader(json, "", &ResponsesFields());
  ReadSampling(reader, limits, &chat.params);
  ReadInput(reader, static_cast<size_t>(limits.messages_max), &request.input);
  reader.String("instructions", &request.instructions,
                static_cast<size_t>(limits.prompt_bytes_max));
  reader.String("previous_response_id", &request.previous_response_id, kNameBytesMax);
  reader.OptionalBool("store", &request.store);
  ReadMetadata(reader, &request.metadata);
  ReadTokensMax(reader, "max_output_tokens", 1, &chat.params);
  ReadStreamFields(reader, &chat.params);
  ReadLogprobs(reader, &chat.params);
  ReadTools(reader, static_cast<size_t>(limits.tools_max), ToolForm::kFlat, &chat.tools);
  if (const Json* choice = reader.Take("tool_choice")) request.tool_choice = *choice;
  ReadReasoning(reader, &chat);
  ReadText(reader, &request);
  CheckForm(reader, chat.params, chat.tools);
  reader.Bool("skip_special_tokens", &chat.params.skip_special_tokens);
  ReadTemplateKwargs(reader, &chat);
  reader.TakeUnread();
  if (auto error = reader.Finish()) return *error;
  UseArgumentOrder(json["input"], body, &request.input);
  UseOrderOf(body, &chat);
  UseOrderOf(body, &chat.params.answer);
  if (!chat.shown_tools.is_null()) {
    request.tools = chat.shown_tools;
    NestTools(&chat.shown_tools);
  }
  return request;
}

std::string RepeatedFields(const ResponsesRequest& request, bool is_stored) {
  const GenerationParams& params = request.chat.params;
  const Json fields = {
      {"instructions", OrNull(request.instructions)},
      {"max_output_tokens", OrNull(params.tokens_max)},
      {"max_tool_calls", nullptr},
      {"metadata", request.metadata},
      {"model", params.model},
      {"parallel_tool_calls", !request.chat.tools.has_one_call},
      {"previous_response_id", OrNull(request.previous_response_id)},
      {"reasoning", {{"effort", OrNull(request.chat.reasoning_effort)}, {"summary", nullptr}}},
      {"background", false},
      {"service_tier", "default"},
      {"store", is_stored},
      {"temperature", Short(params.sampling.temperature)},
      {"text", {{"format", request.text_format}, {"verbosity", "medium"}}},
      {"tool_choice", request.tool_choice},
      {"top_logprobs", std::max(params.sampling.num_logprobs, 0)},
      {"top_p", Short(params.sampling.top_p)},
      {"truncation", "disabled"},
      {"user", nullptr}};
  std::string text = DumpJson(fields);
  text = text.substr(1, text.size() - 2);
  return text +
         ",\"tools\":" + request.tools.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace graft
