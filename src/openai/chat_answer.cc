#include "openai/chat_answer.h"

#include "base/random.h"
#include "http/random_name.h"
#include "openai/openai_response.h"

namespace graft {
namespace {

using Kind = OutputPart::Kind;

struct ToolCall {
  std::string name;
  std::string arguments;
};

void AppendToolCall(const ToolCall& call, bool short_ids, std::string* out) {
  *out += "{\"id\":";
  AppendJsonString(NewCallId(short_ids), out);
  *out += ",\"type\":\"function\",\"function\":{\"name\":";
  AppendJsonString(call.name, out);
  *out += ",\"arguments\":";
  AppendJsonString(call.arguments, out);
  *out += "}}";
}

std::string TextDelta(const char* field, const std::string& text) {
  std::string delta = std::string("{\"") + field + "\":";
  AppendJsonString(text, &delta);
  return delta + "}";
}

// A call's first delta has its id and name, the others more of its arguments.
std::string CallDelta(int32_t idx, const std::string* name, const std::string& arguments,
                      bool short_ids) {
  std::string delta = "{\"tool_calls\":[{\"index\":" + std::to_string(idx) + ",";
  if (name != nullptr) {
    delta += "\"id\":\"" + NewCallId(short_ids) + "\",\"type\":\"function\",";
  }
  delta += "\"function\":{";
  if (name != nullptr) {
    delta += "\"name\":";
    AppendJsonString(*name, &delta);
    delta += ",";
  }
  delta += "\"arguments\":";
  AppendJsonString(arguments, &delta);
  return delta + "}}]}";
}

}  // namespace

std::string NewCallId(bool is_short) {
  const std::string id = RandomName("");
  return is_short ? id.substr(0, 9) : "call_" + id;
}

void AppendChatMessage(const ChoicePiece& piece, bool short_call_ids, std::string* out) {
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
  *out += "{\"role\":\"assistant\",\"content\":";
  if (content.empty() && (!calls.empty() || !reasoning.empty())) {
    *out += "null";
  } else {
    AppendJsonString(content, out);
  }
  *out += ",\"refusal\":null";
  if (!reasoning.empty()) {
    *out += ",\"reasoning_content\":";
    AppendJsonString(reasoning, out);
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    *out += i == 0 ? ",\"tool_calls\":[" : ",";
    AppendToolCall(calls[i], short_call_ids, out);
  }
  *out += calls.empty() ? "}" : "]}";
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
