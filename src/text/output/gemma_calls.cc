// Calls of Gemma models. FunctionGemma writes
// <start_function_call>call:name{key:<escape>text<escape>}<end_function_call>, and Gemma 4 writes
// <|tool_call>call:name{key:<|"|>text<|"|>}<tool_call|>. Gemma 3 writes what prompts ask for: a
// pythonic list, or JSON as Llama's, each also fenced.
#include <cmath>

#include "text/output/json_call.h"
#include "text/output/python_calls.h"

namespace graft {
namespace {

constexpr int kGemmaDepthMax = 48;
constexpr std::string_view kCallWord = "call:";

// What stands between a call's marks, up to the end, as JSON. FunctionGemma quotes every value, so
// that the schema has to tell what is no string.
class GemmaText {
 public:
  GemmaText(std::string_view text, std::string_view quote) : rest_(text), quote_(quote) {}

  bool TakeCall(const std::vector<ToolSpec>& tools, PythonCall* call) {
    if (!rest_.starts_with(kCallWord)) return false;
    const size_t open = rest_.find('{');
    if (open == std::string_view::npos) return false;
    call->first = rest_.substr(kCallWord.size(), open - kCallWord.size());
    if (call->first.empty()) return false;
    rest_.remove_prefix(open);
    tool_ = FindTool(tools, call->first);
    return TakeObject(&call->second, 0) && rest_.empty();
  }

 private:
  bool Take(std::string_view mark) {
    if (!rest_.starts_with(mark)) return false;
    rest_.remove_prefix(mark.size());
    return true;
  }

  bool TakeQuoted(std::string* text) {
    if (!Take(quote_)) return false;
    const size_t end = rest_.find(quote_);
    if (end == std::string_view::npos) return false;
    *text = rest_.substr(0, end);
    rest_.remove_prefix(end + quote_.size());
    return true;
  }

  bool TakeObject(std::string* json, int depth) {
    Take("{");
    *json += '{';
    bool has_comma = true;
    for (size_t num_entries = 0; !Take("}"); ++num_entries) {
      std::string key;
      if (!has_comma || (!TakeQuoted(&key) && !TakeBare(":", &key)) || !Take(":")) return false;
      if (num_entries > 0) *json += ", ";
      *json += DumpJson(Json(key)) + ": ";
      if (!TakeGemmaValue(json, key, depth + 1)) return false;
      has_comma = Take(",");
    }
    *json += '}';
    return true;
  }

  bool TakeList(std::string* json, int depth) {
    Take("[");
    *json += '[';
    bool has_comma = true;
    for (size_t num_items = 0; !Take("]"); ++num_items) {
      if (!has_comma) return false;
      if (num_items > 0) *json += ", ";
      if (!TakeGemmaValue(json, "", depth + 1)) return false;
      has_comma = Take(",");
    }
    *json += ']';
    return true;
  }

  // What is not quoted, up to one of `ends`.
  bool TakeBare(std::string_view ends, std::string* text) {
    const size_t end = rest_.find_first_of(ends);
    if (end == std::string_view::npos || end == 0) return false;
    *text = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return true;
  }

  bool TakeGemmaValue(std::string* json, const std::string& key, int depth) {
    if (depth > kGemmaDepthMax) return false;
    if (rest_.starts_with("{")) return TakeObject(json, depth);
    if (rest_.starts_with("[")) return TakeList(json, depth);
    std::string text;
    if (TakeQuoted(&text)) {
      *json += depth == 1 && !IsStringArgument(tool_, key) && IsJsonValue(text)
                   ? text
                   : DumpJson(Json(text));
      return true;
    }
    if (!TakeBare(",}]", &text)) return false;
    *json += IsJsonValue(text) ? text : DumpJson(Json(text));
    return true;
  }

  static bool IsJsonValue(const std::string& text) {
    const Result<Json> value = ParseJson(text);
    if (!value.ok() || value->is_string()) return false;
    return !value->is_number() || std::isfinite(value->get<double>());
  }

  std::string_view rest_;
  const std::string_view quote_;
  const ToolSpec* tool_ = nullptr;
};

// A call up to its closing mark, which may stand in quotes, too.
class GemmaReader : public CallReader {
 public:
  GemmaReader(std::string_view closing_mark, std::string_view quote,
              const std::vector<ToolSpec>& tools)
      : closing_mark_(closing_mark), quote_(quote), tools_(tools) {}

  Step Push(char c, CallWriter* out) override {
    text_ += c;
    if (text_.size() <= kCallWord.size() && !kCallWord.starts_with(text_)) return Step::kNoCall;
    if (c != '>') return Step::kMore;
    if (text_.ends_with(quote_)) in_quotes_ = !in_quotes_;
    if (in_quotes_ || !text_.ends_with(closing_mark_)) return Step::kMore;
    PythonCall call;
    const std::string_view inside =
        std::string_view(text_).substr(0, text_.size() - closing_mark_.size());
    if (!GemmaText(inside, quote_).TakeCall(tools_, &call)) return Step::kNoCall;
    out->Call(call.first, call.second);
    return Step::kDone;
  }

  bool Finish(CallWriter*) override { return false; }

 private:
  const std::string_view closing_mark_;
  const std::string_view quote_;
  const std::vector<ToolSpec>& tools_;
  std::string text_;
  bool in_quotes_ = false;
};

CallOpener GemmaOpener(std::string_view mark, std::string_view closing_mark, std::string_view quote,
                       const std::vector<ToolSpec>& tools) {
  return {.mark = mark, .make = [=, &tools] {
            return std::make_unique<GemmaReader>(closing_mark, quote, tools);
          }};
}

}  // namespace

std::vector<CallOpener> GemmaOpeners(const std::vector<ToolSpec>& tools) {
  constexpr std::string_view kFence = "```";
  std::vector<CallOpener> openers = PythonicOpeners(tools);
  openers.push_back(GemmaOpener("<start_function_call>", "<end_function_call>", "<escape>", tools));
  openers.push_back(GemmaOpener("<|tool_call>", "<tool_call|>", "<|\"|>", tools));
  openers.push_back({.mark = "```json", .is_control = false, .make = [=, &tools] {
                       return NewMarkedJsonReader(kFence, &tools);
                     }});
  openers.push_back({.mark = "```tool_code", .is_control = false, .make = [=, &tools] {
                       return NewPythonReader({.closing_mark = kFence, .needs_known = true}, tools);
                     }});
  openers.push_back(LlamaOpeners(tools).front());
  return openers;
}

}  // namespace graft
