// Calls of Llama 3.x: {"name": ..., "parameters": {...}} anywhere in a text, or after
// <|python_tag|>. Further calls follow after a semicolon, a line feed or another tag. Built-in
// tools are called as <|python_tag|>name.call(key="value").
#include <utility>

#include "text/output/json_call.h"
#include "text/output/python_calls.h"

namespace graft {
namespace {

constexpr std::string_view kPythonTag = "<|python_tag|>";

class LlamaReader : public CallReader {
 public:
  explicit LlamaReader(const std::vector<ToolSpec>* known) : known_(known), call_(known) {}

  Step Push(char c, CallWriter* out) override {
    if (is_between_) return PushBetween(c, out);
    const Step step = call_.Push(c, out);
    if (step != Step::kDone) return step;
    is_between_ = true;
    has_semicolon_ = false;
    return Step::kMore;
  }

  bool Finish(CallWriter* out) override { return is_between_ || call_.Finish(out); }

 private:
  // What separates two calls belongs to neither text nor calls.
  Step PushBetween(char c, CallWriter* out) {
    if (IsJsonSpace(c)) return Step::kMore;
    if (c == ';' && !std::exchange(has_semicolon_, true)) return Step::kMore;
    if (c != '{') return Step::kEndedBefore;
    is_between_ = false;
    call_ = JsonCall(known_);
    return Push(c, out);
  }

  const std::vector<ToolSpec>* known_;
  JsonCall call_;
  bool is_between_ = false;
  bool has_semicolon_ = false;
};

// Behind the tag comes JSON, or a call of a built-in tool.
class PythonTagReader : public CallReader {
 public:
  explicit PythonTagReader(const std::vector<ToolSpec>& tools) : tools_(tools) {}

  Step Push(char c, CallWriter* out) override {
    if (reader_ == nullptr) {
      if (IsJsonSpace(c)) return Step::kMore;
      if (c == '{') {
        reader_ = std::make_unique<LlamaReader>(nullptr);
      } else {
        reader_ = NewPythonReader({.is_builtin = true}, tools_);
      }
    }
    return reader_->Push(c, out);
  }

  bool Finish(CallWriter* out) override { return reader_ != nullptr && reader_->Finish(out); }

 private:
  const std::vector<ToolSpec>& tools_;
  std::unique_ptr<CallReader> reader_;
};

}  // namespace

std::vector<CallOpener> LlamaOpeners(const std::vector<ToolSpec>& tools) {
  return {
      {.mark = "{",
       .is_control = false,
       .make =
           [&tools] {
             auto reader = std::make_unique<LlamaReader>(&tools);
             OutputParts none;
             CallWriter writer(&none);
             reader->Push('{', &writer);
             return reader;
           }},
      {.mark = kPythonTag, .make = [&tools] { return std::make_unique<PythonTagReader>(tools); }}};
}

}  // namespace graft
