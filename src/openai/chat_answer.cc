#include "openai/chat_answer.h"

#include "base/json.h"
#include "base/random.h"

namespace graft {
namespace {

using Kind = OutputPart::Kind;

struct ToolCall {
  std::string name;
  std::string arguments;
};

std::string ToolCallJson(const ToolCall& call, bool short_ids) {
  return "{\"id\":\"" + NewCallId(short_ids) +
         "\",\"type\":\"function\",\"function\":{\"name\":" + JsonString(call.name) +
         ",\"arguments\":" + JsonString(call.arguments) + "}}";
}

std::string TextDelta(const char* field, const std::string& text) {
  return std::string("{\"") + field + "\":" + JsonString(text) + "}";
}

// A call's first delta has its id and name, the others more of its arguments.
std::string CallDelta(int32_t idx, const std::string* name, const std::string& arguments,
                      bool short_ids) {
  std::string delta = "{\"tool_calls\":[{\"index\":" + std::to_string(idx) + ",";
  if (name != nullptr) {
    delta += "\"id\":\"" + NewCallId(short_ids) +
             "\",\"type\":\"function\",\"function\":{\"name\":" + JsonString(*name) + ",";
  } else {
    delta += "\"function\":{";
  }
  return delta + "\"arguments\":" + JsonString(arguments) + "}}]}";
}

}  // namespace

std::string NewCallId(bool is_short) {
  const std::string id = RandomName("");
  return is_short ? id.substr(0, 9) : "call_" + id;
}

std::string ChatMessage(const ChoicePiece& piece, bool short_call_ids) {
  std::string content = piece.text;
  std::string reasoning;
  std::vector<ToolCall> calls;
  for (const OutputPart& part : piece.parts) {
    if (part.kind == Kind::kContent) content += part.text;
    if (part.kind == Kind::kReasoning) reasoning += part.text;
    if (part.kind == Kind::kCall) calls.push_back({part.text, ""});
    if (part.kind == Kind::kArguments) calls.back().arguments += part.text;
    if (part.kind != Kind::kCallDropped) continue;
    calls.pop_back();
    content += part.text;
  }
  const bool has_no_content = content.empty() && (!calls.empty() || !reasoning.empty());
  std::string message =
      "{\"role\":\"assistant\",\"content\":" + (has_no_content ? "null" : JsonString(content)) +
      ",\"refusal\":null";
  if (!reasoning.empty()) message += ",\"reasoning_content\":" + JsonString(reasoning);
  for (size_t i = 0; i < calls.size(); ++i) {
    message += (i == 0 ? ",\"tool_calls\":[" : ",") + ToolCallJson(calls[i], short_call_ids);
  }
  return message + (calls.empty() ? "}" : "]}");
}

std::vector<std::string> ChatDeltas(const ChoicePiece& piece, bool short_call_ids) {
  std::vector<std::string> deltas;
  if (!piece.text.empty()) deltas.push_back(TextDelta("content", piece.text));
  int32_t idx = piece.num_calls_before - 1;
  for (size_t i = 0; i < piece.parts.size(); ++i) {
    const OutputPart& part = piece.parts[i];
    if (part.kind == Kind::kContent) deltas.push_back(TextDelta("content", part.text));
    if (part.kind == Kind::kReasoning) {
      deltas.push_back(TextDelta("reasoning_content", part.text));
    }
    if (part.kind == Kind::kArguments) {
      deltas.push_back(CallDelta(idx, nullptr, part.text, short_call_ids));
    }
    if (part.kind != Kind::kCall) continue;
    // The name comes with the arguments that are there already.
    const bool has_arguments =
        i + 1 < piece.parts.size() && piece.parts[i + 1].kind == Kind::kArguments;
    deltas.push_back(
        CallDelta(++idx, &part.text, has_arguments ? piece.parts[i + 1].text : "", short_call_ids));
    i += has_arguments ? 1 : 0;
  }
  return deltas;
}

}  // namespace graft
