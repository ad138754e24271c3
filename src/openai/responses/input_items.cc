#include "openai/responses/input_items.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/random.h"

namespace graft {
namespace {

// All texts together are bounded by the request's own limit.
constexpr size_t kItemTextBytesMax = size_t{4} << 20;

std::string IndexedPath(const std::string& path, size_t idx) {
  return path + "[" + std::to_string(idx) + "]";
}

// An item's own id, or a new one.
std::string IdOf(FieldReader& reader, const char* prefix) {
  std::string id;
  reader.String("id", &id, kNameBytesMax);
  return id.empty() ? RandomName(prefix) : id;
}

std::string RequiredString(FieldReader& reader, const char* name, size_t bytes_max) {
  std::string text;
  const Json* json = reader.Take(name);
  if (json == nullptr) {
    reader.Fail(name, "is required");
  } else {
    reader.String(name, &text, bytes_max);
  }
  return text;
}

// A list of parts that are texts of certain kinds; a text alone is a list of one part of the first.
// Servers, clients and gateways add fields of their own to parts.
Json ReadParts(FieldReader& reader, const std::string& path, const char* name,
               std::initializer_list<const char*> kinds) {
  Json parts = Json::array();
  const Json* json = reader.Take(name);
  if (json == nullptr) return parts;
  if (json->is_string()) {
    parts.push_back({{"type", *kinds.begin()}, {"text", *json}});
    return parts;
  }
  if (!json->is_array()) {
    reader.Fail(name,
                std::string("must be a string or a list of parts, got ") + JsonTypeName(*json));
    return parts;
  }
  for (size_t i = 0; i < json->size() && !reader.failed(); ++i) {
    FieldReader part((*json)[i], IndexedPath(path + name, i) + ".");
    const std::string type = part.OneOf("type", kinds, "what this server reads");
    const char* const field = type == "refusal" ? "refusal" : "text";
    std::string text = RequiredString(part, field, kItemTextBytesMax);
    part.DropUnread();
    if (auto error = part.Finish()) reader.Fail(*error);
    parts.push_back({{"type", type}, {"text", std::move(text)}});
  }
  return parts;
}

Json ReadMessageItem(FieldReader& reader, const std::string& path) {
  const std::string role = reader.OneOf("role", {"user", "assistant", "system", "developer"});
  if (!reader.failed() && reader.Take("content") == nullptr) reader.Fail("content", "is required");
  const bool is_answer = role == "assistant";
  Json parts = is_answer
                   ? ReadParts(reader, path, "content", {"output_text", "input_text", "refusal"})
                   : ReadParts(reader, path, "content", {"input_text", "output_text"});
  for (Json& part : parts) {
    part["type"] = is_answer ? "output_text" : "input_text";
    if (is_answer) part["annotations"] = Json::array();
  }
  reader.Ignore({"phase"});
  if (is_answer) reader.DropUnread();
  return {{"id", IdOf(reader, "msg_")}, {"role", role}, {"content", std::move(parts)}};
}

// A text of JSON; an object is read as its text.
std::string ReadArguments(FieldReader& reader) {
  const Json* json = reader.Take("arguments");
  if (json != nullptr && json->is_object()) return DumpJson(*json);
  return RequiredString(reader, "arguments", kItemTextBytesMax);
}

Json ReadCallItem(FieldReader& reader) {
  reader.Refuse("namespace");
  reader.DropUnread();
  return {{"id", IdOf(reader, "fc_")},
          {"call_id", RequiredString(reader, "call_id", kNameBytesMax)},
          {"name", RequiredString(reader, "name", kNameBytesMax)},
          {"arguments", ReadArguments(reader)}};
}

Json ReadCallOutputItem(FieldReader& reader, const std::string& path) {
  if (!reader.failed() && reader.Take("output") == nullptr) reader.Fail("output", "is required");
  Json parts = ReadParts(reader, path, "output", {"input_text"});
  reader.Refuse("namespace");
  reader.DropUnread();
  Json output = std::move(parts);
  if (output.size() == 1) output = output[0]["text"];
  return {{"id", IdOf(reader, "fco_")},
          {"call_id", RequiredString(reader, "call_id", kNameBytesMax)},
          {"output", std::move(output)}};
}

Json ReadReasoningItem(FieldReader& reader, const std::string& path) {
  // What another server has encrypted cannot be read here.
  reader.Refuse("encrypted_content");
  reader.DropUnread();
  return {{"id", IdOf(reader, "rs_")},
          {"summary", ReadParts(reader, path, "summary", {"summary_text"})},
          {"content", ReadParts(reader, path, "content", {"reasoning_text"})}};
}

std::optional<ApiError> ReadItem(const Json& json, const std::string& path, Json* items) {
  FieldReader reader(json, path);
  // OpenAI's short form of a message has a role and no type.
  const bool is_short = json.is_object() && json.value("type", Json()).is_null();
  const std::string type =
      is_short
          ? "message"
          : reader.OneOf("type", {"message", "function_call", "function_call_output", "reasoning"},
                         "the kinds of items that this server knows");
  if (is_short) reader.Take("type");
  Json item;
  if (type == "message") item = ReadMessageItem(reader, path);
  if (type == "function_call") item = ReadCallItem(reader);
  if (type == "function_call_output") item = ReadCallOutputItem(reader, path);
  if (type == "reasoning") item = ReadReasoningItem(reader, path);
  std::string status = "completed";
  reader.String("status", &status, kNameBytesMax);
  if (auto error = reader.Finish()) return error;
  item["type"] = type;
  item["status"] = status;
  items->push_back(std::move(item));
  return std::nullopt;
}

}  // namespace

void UseArgumentOrder(const Json& input, std::string_view body, Json* items) {
  const auto has_object = [](const Json& item) {
    return item.is_object() && item.value("arguments", Json()).is_object();
  };
  if (!input.is_array() || std::none_of(input.begin(), input.end(), has_object)) return;
  const Result<OrderedJson> json = ParseOrderedJson(body);
  if (!json.ok() || !json->contains("input")) return;  // it was read before
  const OrderedJson& list = (*json)["input"];
  for (size_t i = 0; i < items->size() && i < list.size(); ++i) {
    if (!has_object(input[i])) continue;
    (*items)[i]["arguments"] =
        list[i]["arguments"].dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  }
}

void ReadInput(FieldReader& reader, size_t items_max, Json* items) {
  *items = Json::array();
  const Json* json = reader.Take("input");
  if (json == nullptr) return reader.Fail("input", "is required");
  if (json->is_string()) {
    std::ignore = ReadItem({{"role", "user"}, {"content", *json}}, "input.", items);
    return;
  }
  if (!json->is_array() || json->empty()) {
    return reader.Fail("input", "must be a string or a list of at least one item");
  }
  if (json->size() > items_max) {
    return reader.Fail("input", "has " + std::to_string(json->size()) + " items, the limit is " +
                                    std::to_string(items_max));
  }
  for (size_t i = 0; i < json->size(); ++i) {
    if (auto error = ReadItem((*json)[i], IndexedPath("input", i) + ".", items)) {
      return reader.Fail(*error);
    }
  }
}

}  // namespace graft
