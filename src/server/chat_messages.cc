#include "server/chat_messages.h"

#include <utility>

#include "server/openai_request.h"

namespace graft {
namespace {

// All texts together are bounded by the request's own limit.
constexpr size_t kReasoningBytesMax = size_t{4} << 20;

// A message's content as one string: text parts are joined by line feeds, as vLLM does.
void ReadContent(FieldReader& reader, const std::string& path, OrderedJson* content) {
  const Json* json = reader.Take("content");
  if (json == nullptr) return;
  if (json->is_string()) {
    *content = json->get<std::string>();
    return;
  }
  if (!json->is_array()) {
    return reader.Fail(
        "content", std::string("must be a string or a list of parts, got ") + JsonTypeName(*json));
  }
  std::string text;
  for (size_t i = 0; i < json->size(); ++i) {
    FieldReader part((*json)[i], path + "content[" + std::to_string(i) + "].");
    part.OneOf("type", {"text"}, "the only kind of content there is here");
    const Json* value = part.Take("text");
    if (!part.failed() && (value == nullptr || !value->is_string())) {
      part.Fail("text", "must be a string");
    }
    part.Ignore({"cache_control"});
    if (auto error = part.Finish()) return reader.Fail(*error);
    if (i > 0) text += '\n';
    text += value->get_ref<const std::string&>();
  }
  *content = std::move(text);
}

// The arguments as an object. What a model wrote that is none stays a text.
OrderedJson ArgumentsOf(const std::string& text) {
  if (text.empty()) return OrderedJson::object();
  const Result<Json> json = ParseJson(text);
  if (!json.ok() || !json->is_object()) return text;
  return OrderedJson::parse(text);  // again: templates show keys in the order that they came in
}

std::optional<ApiError> ReadToolCall(const Json& json, const std::string& path,
                                     ChatMessages* messages, OrderedJson* calls) {
  FieldReader reader(json, path);
  std::string id;
  reader.String("id", &id, kNameBytesMax);
  if (reader.Take("type") != nullptr) reader.OneOf("type", {"function"});
  reader.Ignore({"index"});  // of a stream's delta
  const Json* function = reader.Take("function");
  if (!reader.failed() && function == nullptr) reader.Fail("function", "is required");
  if (auto error = reader.Finish()) return error;

  FieldReader nested(*function, path + "function.");
  std::string name;
  nested.String("name", &name, kNameBytesMax);
  if (name.empty()) nested.Fail("name", "is required");
  const Json* arguments = nested.Take("arguments");
  if (!nested.failed() && arguments != nullptr && !arguments->is_string()) {
    nested.Fail("arguments",
                std::string("must be a string of JSON, got ") + JsonTypeName(*arguments));
  }
  if (auto error = nested.Finish()) return error;
  AddToolCall(id, name, arguments == nullptr ? "{}" : arguments->get<std::string>(), messages,
              calls);
  return std::nullopt;
}

void ReadToolCalls(FieldReader& reader, const std::string& path, ChatMessages* messages,
                   OrderedJson* calls) {
  const Json* json = reader.Take("tool_calls");
  if (json == nullptr) return;
  if (!json->is_array()) {
    return reader.Fail("tool_calls", std::string("must be a list, got ") + JsonTypeName(*json));
  }
  for (size_t i = 0; i < json->size(); ++i) {
    const std::string call_path = path + "tool_calls[" + std::to_string(i) + "].";
    if (auto error = ReadToolCall((*json)[i], call_path, messages, calls)) {
      return reader.Fail(*error);
    }
  }
}

// What only an assistant says: calls, and how it came to its answer.
void ReadAssistant(FieldReader& reader, const std::string& path, ChatMessages* messages,
                   OrderedJson* message) {
  OrderedJson calls = OrderedJson::array();
  ReadToolCalls(reader, path, messages, &calls);
  std::string reasoning;
  reader.String("reasoning", &reasoning, kReasoningBytesMax);
  reader.String("reasoning_content", &reasoning, kReasoningBytesMax);
  if (!reasoning.empty()) (*message)["reasoning_content"] = reasoning;
  if (!calls.empty()) {
    (*message)["tool_calls"] = std::move(calls);
  } else if ((*message)["content"].is_null()) {
    (*message)["content"] = "";
  }
}

std::optional<ApiError> ReadMessage(const Json& json, const std::string& path,
                                    ChatMessages* messages) {
  FieldReader reader(json, path);
  std::string name, call_id;
  std::string role = reader.OneOf("role", {"system", "developer", "user", "assistant", "tool"});
  // OpenAI's newer word for the same thing, which few templates know.
  if (role == "developer") role = "system";
  OrderedJson message = {{"role", role}, {"content", nullptr}};
  ReadContent(reader, path, &message["content"]);
  if (role == "assistant") {
    ReadAssistant(reader, path, messages, &message);
  } else {
    reader.Refuse("tool_calls");
    reader.Refuse("reasoning_content");
    reader.Refuse("reasoning");
    if (!reader.failed() && message["content"].is_null()) reader.Fail("content", "is required");
  }
  if (role == "tool") {
    reader.String("tool_call_id", &call_id, kNameBytesMax);
  } else {
    reader.Refuse("tool_call_id");
  }
  reader.String("name", &name, kNameBytesMax);
  reader.Refuse({"function_call", "audio", "refusal"});
  // Fields of this server's own answers, which clients send back.
  reader.Ignore({"annotations"});
  if (auto error = reader.Finish()) return error;
  if (!name.empty()) message["name"] = name;
  if (!call_id.empty()) message["tool_call_id"] = call_id;
  messages->list.push_back(std::move(message));
  return std::nullopt;
}

}  // namespace

void AddToolCall(const std::string& id, const std::string& name, std::string arguments,
                 ChatMessages* messages, OrderedJson* calls) {
  calls->push_back({{"id", id},
                    {"type", "function"},
                    {"function", {{"name", name}, {"arguments", ArgumentsOf(arguments)}}}});
  messages->argument_texts.push_back(std::move(arguments));
}

std::optional<ApiError> CheckTextBytes(const ChatMessages& messages, const RequestLimits& limits) {
  size_t bytes = 0;
  for (const OrderedJson& message : messages.list) {
    for (const char* text : {"content", "reasoning_content"}) {
      const auto it = message.find(text);
      if (it == message.end() || !it->is_string()) continue;
      bytes += it->get_ref<const std::string&>().size();
    }
  }
  for (const std::string& text : messages.argument_texts) bytes += text.size();
  if (bytes <= static_cast<size_t>(limits.prompt_bytes_max)) return std::nullopt;
  const std::string field = messages.field;
  return InvalidRequestError(field, "'" + field + "' holds more than " +
                                        std::to_string(limits.prompt_bytes_max) + " bytes of text");
}

void ReadMessages(FieldReader& reader, const RequestLimits& limits, ChatMessages* messages) {
  const Json* json = reader.Take("messages");
  if (json == nullptr) return reader.Fail("messages", "is required");
  if (!json->is_array() || json->empty()) {
    return reader.Fail("messages", "must be a list of at least one message");
  }
  if (static_cast<int64_t>(json->size()) > limits.messages_max) {
    return reader.Fail("messages", "has " + std::to_string(json->size()) +
                                       " messages, the limit is " +
                                       std::to_string(limits.messages_max));
  }
  for (size_t i = 0; i < json->size(); ++i) {
    const std::string path = "messages[" + std::to_string(i) + "].";
    if (auto error = ReadMessage((*json)[i], path, messages)) return reader.Fail(*error);
  }
  if (auto error = CheckTextBytes(*messages, limits)) reader.Fail(*error);
}

void UseEmptyContents(ChatMessages* messages) {
  for (OrderedJson& message : messages->list) {
    if (message["content"].is_null()) message["content"] = "";
  }
}

void UseArgumentTexts(ChatMessages* messages) {
  size_t i = 0;
  for (OrderedJson& message : messages->list) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end()) continue;
    for (OrderedJson& call : *calls) {
      call["function"]["arguments"] = messages->argument_texts.at(i++);
    }
  }
}

}  // namespace graft
