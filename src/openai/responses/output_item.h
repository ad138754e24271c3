// One item of a response: a message, a call, or reasoning. Plain data and its JSON.
#pragma once

#include <cstdint>
#include <string>

namespace graft {

struct OutputItem {
  enum class Kind : uint8_t { kMessage, kReasoning, kCall };

  Kind kind = Kind::kMessage;
  std::string id;
  std::string call_id;  // of a call, as its name
  std::string name;
  std::string text;  // a call's arguments
  std::string status = "in_progress";
};

// "msg_", "rs_" or "fc_".
const char* IdPrefix(OutputItem::Kind kind);

// The item as it is announced: without its text.
std::string NewItemJson(const OutputItem& item);

// The item as it stands. `logprobs` are a message's, a list without its brackets.
std::string ItemJson(const OutputItem& item, const std::string& logprobs);

// The one part of a message or of reasoning.
std::string PartJson(const OutputItem& item, const std::string& text, const std::string& logprobs);

}  // namespace graft
