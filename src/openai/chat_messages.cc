#include "openai/chat_messages.h"

#include <utility>

#include "openai/inner_json.h"
#include "openai/openai_request.h"
#include "text/chat/content_form.h"

namespace graft {
namespace {

// All texts together are bounded by the request's own limit.
constexpr size_t kReasoningBytesMax = size_t{4} << 20;

// What the parts of a content say.
struct PartTexts {
  std::vector<std::string> texts;
  std::string reasoning;  // of parts that show how an assistant came to its answer
};

// A text, or a list of objects with a "text" each, as some servers write reasoning.
void ReadPartText(FieldReader& part, const char* name, std::string* text) {
  const Json* value = part.Take(name);
  if (part.failed()) return;
  if (value != nullptr && value->is_string()) {
    *text = value->get<std::string>();
    return;
  }
  bool is_good = value != nullptr && value->is_array();
  for (size_t i = 0; is_good && i < value->size(); ++i) {
    const Json& one = (*value)[i];
    const auto found = one.is_object() ? one.find("text") : one.end();
    is_good = one.is_object() && found != one.end() && found->is_string();
    if (is_good) *text += found->get_ref<const std::string&>();
  }
  if (!is_good) part.Fail(name, "must be a string");
}

// What was thought, in the fields of several servers; "" where it is withheld or encrypted.
void ReadReasoningPart(FieldReader& part, std::string* text) {
  for (const char* const name : {"thinking", "text", "reasoning", "summary"}) {
    if (part.Take(name) != nullptr) return ReadPartText(part, name, text);
  }
}

// Besides its type and its text a part has what clients and gateways keep there. `is_answer`: an
// assistant's or a tool's message. Its parts may have the forms of several servers.
std::optional<ApiError> ReadPart(const Json& json, const std::string& path, bool is_answer,
                                 PartTexts* texts) {
  FieldReader part(json, path);
  part.DropUnread();
  std::string text;
  if (!is_answer) {
    const Json* const type = part.Take("type");
    if (type != nullptr && type->is_string() && type->get_ref<const std::string&>() != "text") {
      part.Fail("type", "is '" + type->get<std::string>().substr(0, kNameBytesMax) +
                            "', but only 'text' is read: no model sees images or hears sound here");
    }
    part.OneOf("type", {"text"}, "the only kind of content there is here");
    ReadPartText(part, "text", &text);
    if (auto error = part.Finish()) return error;
    texts->texts.push_back(std::move(text));
    return std::nullopt;
  }
  const std::string type = part.OneOf(
      "type", {"text", "output_text", "refusal", "thinking", "reasoning", "redacted_thinking"},
      "which are read of earlier turns");
  if (type == "thinking" || type == "reasoning") {
    ReadReasoningPart(part, &text);
    texts->reasoning += text;
  } else if (type != "redacted_thinking") {
    ReadPartText(part, type == "refusal" ? "refusal" : "text", &text);
    texts->texts.push_back(std::move(text));
  }
  return part.Finish();
}

// Leaves `content` alone where there is none.
void ReadContent(FieldReader& reader, const std::string& path, bool is_answer, OrderedJson* content,
                 std::string* reasoning) {
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
  PartTexts texts;
  for (size_t i = 0; i < json->size(); ++i) {
    const std::string part_path = path + "content[" + std::to_string(i) + "].";
    if (auto error = ReadPart((*json)[i], part_path, is_answer, &texts)) {
      return reader.Fail(*error);
    }
  }
  const bool has_reasoning_alone = texts.texts.empty() && !json->empty();
  if (!has_reasoning_alone) *content = ContentOf(std::move(texts.texts));
  *reasoning = std::move(texts.reasoning);
}

// The arguments as an object. What a model wrote that is none, or is too large, stays a text.
OrderedJson ArgumentsOf(const std::string& text) {
  if (text.empty()) return OrderedJson::object();
  Result<OrderedJson> json = ParseInnerOrderedJson(text);
  if (!json.ok() || !json->is_object()) return text;
  return std::move(*json);  // templates show keys in the order that they came in
}

std::string TextOf(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

// What a call of an earlier turn says besides its name and arguments changes no token.
std::optional<ApiError> ReadToolCall(const Json& json, const std::string& path,
                                     ChatMessages* messages, OrderedJson* calls) {
  FieldReader reader(json, path);
  std::string id;
  reader.String("id", &id, kNameBytesMax);
  if (reader.Take("type") != nullptr) reader.OneOf("type", {"function"});
  const Json* function = reader.Take("function");
  if (!reader.failed() && function == nullptr) reader.Fail("function", "is required");
  reader.DropUnread();
  if (auto error = reader.Finish()) return error;

  FieldReader nested(*function, path + "function.");
  std::string name;
  nested.String("name", &name, kNameBytesMax);
  if (name.empty()) nested.Fail("name", "is required");
  const Json* arguments = nested.Take("arguments");
  const bool is_object = arguments != nullptr && arguments->is_object();
  if (!nested.failed() && arguments != nullptr && !arguments->is_string() && !is_object) {
    nested.Fail("arguments", std::string("must be a string of JSON or an object, got ") +
                                 JsonTypeName(*arguments));
  }
  nested.DropUnread();
  if (auto error = nested.Finish()) return error;
  std::string text = "{}";
  if (arguments != nullptr) text = is_object ? DumpJson(*arguments) : arguments->get<std::string>();
  messages->has_argument_objects |= is_object;
  AddToolCall(id, name, std::move(text), messages, calls);
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

// What only an assistant says: calls, and how it came to its answer, which parts may have told.
void ReadAssistant(FieldReader& reader, const std::string& path, std::string reasoning,
                   ChatMessages* messages, OrderedJson* message) {
  OrderedJson calls = OrderedJson::array();
  ReadToolCalls(reader, path, messages, &calls);
  reader.String("reasoning", &reasoning, kReasoningBytesMax);
  reader.String("reasoning_content", &reasoning, kReasoningBytesMax);
  // OpenAI's field for an answer that declines, which has no content then.
  std::string refusal;
  reader.String("refusal", &refusal, kReasoningBytesMax);
  OrderedJson& content = (*message)["content"];
  if ((content.is_null() || content == "") && !refusal.empty()) content = std::move(refusal);
  if (content.is_null() && calls.empty()) content = "";
  if (!reasoning.empty()) (*message)["reasoning_content"] = std::move(reasoning);
  if (!calls.empty()) (*message)["tool_calls"] = std::move(calls);
}

// Refuses of a user's or a system's message what it cannot have. An answer's message has fields of
// the server that gave it, and of clients and gateways on the way; none of them changes a token.
void ReadOtherFields(FieldReader& reader, const std::string& role) {
  if (role == "assistant") {
    reader.Refuse({"function_call", "audio"});
    return reader.DropUnread();
  }
  if (role == "tool") return reader.DropUnread();
  reader.Refuse({"tool_calls", "reasoning_content", "reasoning", "tool_call_id", "function_call",
                 "audio", "refusal"});
  reader.Ignore({"annotations", "cache_control", "created_at", "id", "metadata",
                 "provider_specific_fields", "status", "timestamp"});
}

std::optional<ApiError> ReadMessage(const Json& json, const std::string& path,
                                    ChatMessages* messages) {
  FieldReader reader(json, path);
  std::string name, call_id, reasoning;
  std::string role = reader.OneOf("role", {"system", "developer", "user", "assistant", "tool"});
  // OpenAI's newer word for the same thing, which few templates know.
  if (role == "developer") role = "system";
  OrderedJson message = {{"role", role}, {"content", nullptr}};
  const bool is_answer = role == "assistant" || role == "tool";
  ReadContent(reader, path, is_answer, &message["content"], &reasoning);
  if (role == "assistant") {
    ReadAssistant(reader, path, std::move(reasoning), messages, &message);
  } else if (!reader.failed() && message["content"].is_null()) {
    reader.Fail("content", "is required");
  }
  if (role == "tool") reader.String("tool_call_id", &call_id, kNameBytesMax);
  reader.String("name", &name, kNameBytesMax);
  ReadOtherFields(reader, role);
  if (auto error = reader.Finish()) return error;
  if (!name.empty()) message["name"] = name;
  if (!call_id.empty()) message["tool_call_id"] = call_id;
  messages->list.push_back(std::move(message));
  return std::nullopt;
}

size_t BytesOf(const OrderedJson& content) {
  if (content.is_string()) return content.get_ref<const std::string&>().size();
  size_t bytes = 0;
  if (!content.is_array()) return bytes;
  for (const OrderedJson& part : content) {
    bytes += part["text"].get_ref<const std::string&>().size();
  }
  return bytes;
}

}  // namespace

OrderedJson ContentOf(std::vector<std::string> texts) {
  if (texts.empty()) return "";
  if (texts.size() == 1) return std::move(texts.front());
  OrderedJson parts = OrderedJson::array();
  for (std::string& text : texts) parts.push_back({{"type", "text"}, {"text", std::move(text)}});
  return parts;
}

std::string LastTextOf(const OrderedJson& content) {
  if (content.is_string()) return content.get<std::string>();
  return content.is_array() ? content.back()["text"].get<std::string>() : "";
}

void MergeLeadingSystem(ChatMessages* messages) {
  OrderedJson& list = messages->list;
  size_t num_leading = 0;
  while (num_leading < list.size() && list[num_leading]["role"] == "system") ++num_leading;
  if (num_leading < 2) return;
  std::string text;
  for (size_t i = 0; i < num_leading; ++i) {
    if (i > 0) text += "\n\n";
    const OrderedJson& content = list[i]["content"];
    text += content.is_string() ? content.get<std::string>() : JoinParts(content);
  }
  list.front()["content"] = std::move(text);
  list.erase(list.begin() + 1, list.begin() + static_cast<ptrdiff_t>(num_leading));
}

void UseArgumentOrder(const OrderedJson& list, ChatMessages* messages) {
  size_t i = 0;
  for (size_t at = 0; at < messages->list.size() && at < list.size(); ++at) {
    const auto calls = messages->list[at].find("tool_calls");
    if (calls == messages->list[at].end()) continue;
    for (size_t j = 0; j < calls->size(); ++j, ++i) {
      const OrderedJson& given = list[at]["tool_calls"][j]["function"];
      const auto arguments = given.find("arguments");
      if (arguments == given.end() || !arguments->is_object()) continue;
      (*calls)[j]["function"]["arguments"] = *arguments;
      messages->argument_texts.at(i) = TextOf(*arguments);
    }
  }
}

void AddToolCall(const std::string& id, const std::string& name, std::string arguments,
                 ChatMessages* messages, OrderedJson* calls) {
  calls->push_back({{"id", id},
                    {"type", "function"},
                    {"function", {{"name", name}, {"arguments", ArgumentsOf(arguments)}}}});
  messages->argument_texts.push_back(std::move(arguments));
}

std::optional<ApiError> CheckTextBytes(const ChatMessages& messages, const RequestLimits& limits) {
  size_t bytes = messages.num_dropped_bytes;
  for (const OrderedJson& message : messages.list) {
    for (const char* text : {"content", "reasoning_content"}) {
      const auto it = message.find(text);
      if (it != message.end()) bytes += BytesOf(*it);
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
