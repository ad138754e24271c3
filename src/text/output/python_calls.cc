// Llama 3.2 and 4, ToolACE, and Gemma 3 where the prompt asks for it: [name(key=value), ...], which
// Llama 4 puts between <|python_start|> and <|python_end|>.
#include "text/output/python_calls.h"

#include <set>

#include "base/strings.h"
#include "text/output/json_scanner.h"
#include "text/output/python_literals.h"

namespace graft {
namespace {

constexpr std::string_view kBuiltinEnd = ".call";

bool IsCallNameByte(char c, bool is_first) {
  return c == '_' || (IsAsciiAlnum(c) && !(is_first && IsAsciiDigit(c))) ||
         (!is_first && (c == '.' || c == '-'));
}

bool TakeCall(PythonText* text, PythonCall* call) {
  std::string json;
  std::set<std::string> names;
  if (!text->TakeName(&call->first) || !text->Take('(')) return false;
  bool has_comma = true;
  while (!text->Take(')')) {
    std::string name;
    if (!has_comma || !text->TakeName(&name) || !text->Take('=')) return false;
    if (!names.insert(name).second) return false;
    json += (names.size() == 1 ? "\"" : ", \"") + name + "\": ";
    if (!text->TakeValue(&json)) return false;
    has_comma = text->Take(',');
  }
  call->second = "{" + json + "}";
  return true;
}

class PythonReader : public CallReader {
 public:
  PythonReader(const PythonReaderOptions& options, const std::vector<ToolSpec>& tools)
      : options_(options), tools_(tools), closing_(options.closing_mark) {
    if (options_.is_list) Scan('[');
  }

  Step Push(char c, CallWriter* out) override {
    if (is_closing_) return closing_.Push(c);
    if (!IsBeginning(c)) return Step::kNoCall;
    const Step step = Scan(c);
    if (step != Step::kDone) return step;
    if (!WriteCalls(out)) return Step::kNoCall;
    is_closing_ = true;
    return options_.closing_mark.empty() ? Step::kDone : Step::kMore;
  }

  bool Finish(CallWriter*) override { return is_closing_; }

 private:
  Step Scan(char c) {
    text_ += c;
    return scanner_.Push(c);
  }

  // Whether a call can begin so: most brackets of a text are seen not to be a list of calls by
  // what follows them.
  bool IsBeginning(char c) {
    if (is_named_) return true;
    if (IsJsonSpace(c) && name_.empty()) return true;
    if (c == '[' && name_.empty() && text_.find('[') == std::string::npos) return true;
    if (IsCallNameByte(c, name_.empty())) {
      name_ += c;
      return true;
    }
    is_named_ = c == '(' && !name_.empty();
    return is_named_ && IsKnown(name_);
  }

  bool IsKnown(const std::string& name) const {
    return !options_.needs_known || FindTool(tools_, name) != nullptr;
  }

  bool WriteCalls(CallWriter* out) {
    std::optional<std::vector<PythonCall>> calls = ParsePythonCalls(text_);
    if (!calls.has_value() || calls->empty()) return false;
    for (PythonCall& call : *calls) {
      if (!IsKnown(call.first)) return false;
      if (!options_.is_builtin) continue;
      if (!call.first.ends_with(kBuiltinEnd)) return false;
      call.first.resize(call.first.size() - kBuiltinEnd.size());
      if (call.first.empty()) return false;
    }
    for (const PythonCall& call : *calls) out->Call(call.first, call.second);
    return true;
  }

  const PythonReaderOptions options_;
  const std::vector<ToolSpec>& tools_;
  PythonScanner scanner_;
  std::string text_;
  std::string name_;  // of the first call
  bool is_named_ = false;
  bool is_closing_ = false;
  ClosingMark closing_;
};

}  // namespace

CallReader::Step PythonScanner::Push(char c) {
  return quote_ == Quote::kNone ? PushCode(c) : PushQuoted(c);
}

CallReader::Step PythonScanner::PushQuoted(char c) {
  if (quote_ == Quote::kOpened && c == mark_) {
    quote_ = Quote::kMaybeTriple;
    return Step::kMore;
  }
  if (quote_ == Quote::kMaybeTriple && c != mark_) {
    quote_ = Quote::kNone;
    return PushCode(c);
  }
  if (quote_ == Quote::kMaybeTriple) {
    quote_ = Quote::kTriple;
    num_marks_ = 0;
    return Step::kMore;
  }
  if (quote_ == Quote::kOpened) quote_ = Quote::kSingle;
  if (escaped_ || c == '\\') {
    escaped_ = !escaped_;
    num_marks_ = 0;
    return Step::kMore;
  }
  num_marks_ = c == mark_ ? num_marks_ + 1 : 0;
  if (num_marks_ == (quote_ == Quote::kTriple ? 3 : 1)) quote_ = Quote::kNone;
  return Step::kMore;
}

CallReader::Step PythonScanner::PushCode(char c) {
  if (c == '"' || c == '\'') {
    quote_ = Quote::kOpened;
    mark_ = c;
    num_marks_ = 0;
  } else if (c == '(' || c == '[' || c == '{') {
    brackets_ += c;
  } else if (c == ')' || c == ']' || c == '}') {
    const char open = c == ')' ? '(' : c == ']' ? '[' : '{';
    if (brackets_.empty() || brackets_.back() != open) return Step::kNoCall;
    brackets_.pop_back();
    if (brackets_.empty()) return Step::kDone;
  }
  return Step::kMore;
}

std::optional<std::vector<PythonCall>> ParsePythonCalls(std::string_view text) {
  PythonText rest(text);
  std::vector<PythonCall> calls;
  const bool is_list = rest.Take('[');
  bool has_comma = true;
  while (is_list ? !rest.Take(']') : calls.empty()) {
    if (!has_comma) return std::nullopt;
    PythonCall call;
    if (!TakeCall(&rest, &call)) return std::nullopt;
    calls.push_back(std::move(call));
    has_comma = is_list && rest.Take(',');
  }
  if (!rest.at_end()) return std::nullopt;
  return calls;
}

std::unique_ptr<CallReader> NewPythonReader(const PythonReaderOptions& options,
                                            const std::vector<ToolSpec>& tools) {
  return std::make_unique<PythonReader>(options, tools);
}

std::vector<CallOpener> PythonicOpeners(const std::vector<ToolSpec>& tools) {
  return {
      {.mark = "[",
       .is_control = false,
       .make = [&tools] { return NewPythonReader({.is_list = true, .needs_known = true}, tools); }},
      {.mark = "<|python_start|>",
       .make = [&tools] { return NewPythonReader({.closing_mark = "<|python_end|>"}, tools); }}};
}

}  // namespace graft
