#include "text/output/call_reader.h"

#include <algorithm>

#include "text/output/json_scanner.h"

namespace graft {

void AppendPart(OutputPart::Kind kind, std::string_view text, OutputParts* parts) {
  if (text.empty()) return;
  if (!parts->empty() && parts->back().kind == kind) {
    parts->back().text += text;
  } else {
    parts->push_back({kind, std::string(text)});
  }
}

const ToolSpec* FindTool(const std::vector<ToolSpec>& tools, std::string_view name) {
  for (const ToolSpec& tool : tools) {
    if (tool.name == name) return &tool;
  }
  return nullptr;
}

bool IsStringArgument(const ToolSpec* tool, const std::string& key) {
  if (tool == nullptr || !tool->parameters.is_object()) return true;
  const auto properties = tool->parameters.find("properties");
  if (properties == tool->parameters.end() || !properties->is_object()) return true;
  const auto schema = properties->find(key);
  if (schema == properties->end() || !schema->is_object()) return true;
  const auto type = schema->find("type");
  if (type == schema->end()) return true;
  if (!type->is_array()) return !type->is_string() || *type == "string";
  return std::find(type->begin(), type->end(), "string") != type->end();
}

void CallWriter::Begin(std::string_view name) {
  parts_.push_back({OutputPart::Kind::kCall, std::string(name)});
  is_open_ = true;
}

void CallWriter::End() {
  parts_.push_back({OutputPart::Kind::kCallEnd, ""});
  is_open_ = false;
}

void CallWriter::Call(std::string_view name, std::string_view arguments) {
  Begin(name);
  Arguments(arguments);
  End();
}

CallReader::Step ClosingMark::Push(char c) {
  if (num_read_ == 0 && IsJsonSpace(c)) return CallReader::Step::kMore;
  if (num_read_ == mark_.size() || c != mark_[num_read_]) return CallReader::Step::kEndedBefore;
  ++num_read_;
  return num_read_ == mark_.size() ? CallReader::Step::kDone : CallReader::Step::kMore;
}

}  // namespace graft
