// From the items of a conversation to the messages that chat templates want. Pure functions; any
// thread.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/json.h"
#include "http/api_error.h"
#include "openai/chat_messages.h"

namespace graft {

// What an assistant did in one turn, its reasoning, text and calls, becomes one message.
class ConversationReader {
 public:
  explicit ConversationReader(ChatMessages* messages) : messages_(*messages) {}

  void AddInstructions(const std::string& text);
  // `item` is whole: of ReadInput, or of an answer. `path` goes before field names in errors.
  std::optional<ApiError> Add(const Json& item, const std::string& path);

 private:
  // The assistant's message that goes on, or a new one where it has `part` already.
  OrderedJson& Assistant(const char* part);
  void AddMessage(const Json& item);
  std::optional<ApiError> AddCallOutput(const Json& item, const std::string& path);

  ChatMessages& messages_;
  bool in_assistant_ = false;                 // the last message is an assistant's, and may go on
  std::map<std::string, std::string> calls_;  // names of the functions that were called, by call id
};

}  // namespace graft
