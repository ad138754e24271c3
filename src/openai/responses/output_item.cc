#include "openai/responses/output_item.h"

#include "base/json.h"

namespace graft {
namespace {

using ItemKind = OutputItem::Kind;

// `parts` is the list of a message's or reasoning's content, without its brackets.
std::string JsonOf(const OutputItem& item, const std::string& parts, const std::string& arguments) {
  std::string json = "{\"id\":" + JsonString(item.id) + ",\"status\":" + JsonString(item.status);
  switch (item.kind) {
    case ItemKind::kMessage:
      return json + ",\"type\":\"message\",\"role\":\"assistant\",\"content\":[" + parts + "]}";
    case ItemKind::kReasoning:
      return json + ",\"type\":\"reasoning\",\"summary\":[],\"content\":[" + parts + "]}";
    case ItemKind::kCall:
      return json + ",\"type\":\"function_call\",\"call_id\":" + JsonString(item.call_id) +
             ",\"name\":" + JsonString(item.name) + ",\"arguments\":" + JsonString(arguments) + "}";
  }
  return json;
}

}  // namespace

const char* IdPrefix(ItemKind kind) {
  if (kind == ItemKind::kCall) return "fc_";
  return kind == ItemKind::kMessage ? "msg_" : "rs_";
}

std::string PartJson(const OutputItem& item, const std::string& text, const std::string& logprobs) {
  if (item.kind == ItemKind::kReasoning) {
    return "{\"type\":\"reasoning_text\",\"text\":" + JsonString(text) + "}";
  }
  return "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[" + logprobs +
         "],\"text\":" + JsonString(text) + "}";
}

std::string NewItemJson(const OutputItem& item) { return JsonOf(item, "", ""); }

std::string ItemJson(const OutputItem& item, const std::string& logprobs) {
  if (item.kind == ItemKind::kCall) return JsonOf(item, "", item.text);
  return JsonOf(item, PartJson(item, item.text, logprobs), "");
}

}  // namespace graft
