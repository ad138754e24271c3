#include "openai/responses/conversation.h"

#include <utility>
#include <vector>

namespace graft {
namespace {

std::vector<std::string> TextsOf(const Json& parts) {
  std::vector<std::string> texts;
  if (parts.is_string()) return {parts.get<std::string>()};
  for (const Json& part : parts) texts.push_back(part["text"].get<std::string>());
  return texts;
}

// Joined by line feeds.
std::string JoinedText(const Json& parts) {
  std::string text;
  for (const std::string& one : TextsOf(parts)) {
    if (!text.empty()) text += '\n';
    text += one;
  }
  return text;
}

}  // namespace

void ConversationReader::AddInstructions(const std::string& text) {
  messages_.list.push_back({{"role", "system"}, {"content", text}});
}

OrderedJson& ConversationReader::Assistant(const char* part) {
  const OrderedJson before = in_assistant_ ? messages_.list.back().value(part, OrderedJson()) : "";
  const bool goes_on = in_assistant_ && (before.is_null() || before == "");
  if (!goes_on) messages_.list.push_back({{"role", "assistant"}, {"content", ""}});
  in_assistant_ = true;
  return messages_.list.back();
}

void ConversationReader::AddMessage(const Json& item) {
  const std::string role = item["role"].get<std::string>();
  OrderedJson content = ContentOf(TextsOf(item["content"]));
  if (role == "assistant") {
    Assistant("content")["content"] = std::move(content);
    return;
  }
  in_assistant_ = false;
  // OpenAI's newer word for the same thing, which few templates know.
  messages_.list.push_back(
      {{"role", role == "developer" ? "system" : role}, {"content", std::move(content)}});
}

std::optional<ApiError> ConversationReader::AddCallOutput(const Json& item,
                                                          const std::string& path) {
  const std::string call_id = item["call_id"].get<std::string>();
  const auto call = calls_.find(call_id);
  if (call == calls_.end()) {
    return InvalidRequestError(path + "call_id",
                               "No call with call_id '" + call_id +
                                   "' comes before this output: send its function_call, too, or "
                                   "'previous_response_id'.");
  }
  in_assistant_ = false;
  messages_.list.push_back({{"role", "tool"},
                            {"content", ContentOf(TextsOf(item["output"]))},
                            {"name", call->second},
                            {"tool_call_id", call_id}});
  return std::nullopt;
}

std::optional<ApiError> ConversationReader::Add(const Json& item, const std::string& path) {
  const std::string type = item["type"].get<std::string>();
  if (type == "message") {
    AddMessage(item);
  } else if (type == "reasoning") {
    std::string text = JoinedText(item["content"]);
    std::string summary = JoinedText(item["summary"]);
    if (text.empty()) std::swap(text, summary);
    messages_.num_dropped_bytes += summary.size();
    if (!text.empty()) Assistant("reasoning_content")["reasoning_content"] = std::move(text);
  } else if (type == "function_call") {
    const std::string call_id = item["call_id"].get<std::string>();
    const std::string name = item["name"].get<std::string>();
    calls_[call_id] = name;
    OrderedJson& message = in_assistant_ ? messages_.list.back() : Assistant("content");
    if (message["content"] == "") message["content"] = nullptr;
    AddToolCall(call_id, name, item["arguments"].get<std::string>(), &messages_,
                &message["tool_calls"]);
  } else if (type == "function_call_output") {
    return AddCallOutput(item, path);
  }
  return std::nullopt;
}

}  // namespace graft
