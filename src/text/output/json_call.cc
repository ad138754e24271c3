#include "text/output/json_call.h"

#include <utility>

namespace graft {
namespace {

constexpr size_t kKeyBytesMax = 256;

// The string in a JSON text that JsonScanner found good.
std::optional<std::string> StringIn(const std::string& json) {
  const Result<Json> parsed = ParseJson(json);
  if (!parsed.ok() || !parsed->is_string()) return std::nullopt;
  return parsed->get<std::string>();
}

class MarkedJsonReader : public CallReader {
 public:
  MarkedJsonReader(std::string_view closing_mark, const std::vector<ToolSpec>* known)
      : call_(known), closing_(closing_mark) {}

  Step Push(char c, CallWriter* out) override {
    if (is_closing_) return closing_.Push(c);
    const Step step = call_.Push(c, out);
    if (step != Step::kDone) return step;
    is_closing_ = true;
    return Step::kMore;
  }

  bool Finish(CallWriter* out) override { return is_closing_ || call_.Finish(out); }

 private:
  JsonCall call_;
  ClosingMark closing_;
  bool is_closing_ = false;
};

}  // namespace

std::unique_ptr<CallReader> NewMarkedJsonReader(std::string_view closing_mark,
                                                const std::vector<ToolSpec>* known) {
  return std::make_unique<MarkedJsonReader>(closing_mark, known);
}

JsonScanner::Step JsonArguments::Push(char c, CallWriter* out) {
  const bool in_string = scanner_.in_string();
  const JsonScanner::Step step = scanner_.Push(c);
  if (step == JsonScanner::Step::kBroken) return step;
  if (step != JsonScanner::Step::kEndBefore) {
    const bool is_blank = IsJsonSpace(c) && !in_string;
    if (held_.empty() && !begun_ && is_blank) return step;
    if (held_.empty() && !begun_) {
      is_object_ = c == '{';
    } else if (!is_blank) {
      is_certain_ = true;
    }
    if (in_string) {
      AppendStringByte(c, &held_);
    } else {
      held_ += c;
    }
  }
  if (step != JsonScanner::Step::kMore) {
    complete_ = true;
    if (!is_object_) UnwrapText();
  }
  Flush(out);
  return step;
}

// Some models write arguments as a string that holds JSON. What is a string and no such thing stays
// one; null is no arguments.
void JsonArguments::UnwrapText() {
  if (held_ == "null") held_ = "{}";
  const std::optional<std::string> text = StringIn(held_);
  if (!text.has_value()) return;
  const Result<Json> inner = ParseJson(*text);
  if (inner.ok() && inner->is_object()) held_ = *text;
}

CallReader::Step JsonArguments::PushWholeCall(char c, CallWriter* out) {
  const JsonScanner::Step step = Push(c, out);
  if (step == JsonScanner::Step::kMore) return CallReader::Step::kMore;
  if (step != JsonScanner::Step::kEnd) return CallReader::Step::kNoCall;
  EndCall(out);
  return CallReader::Step::kDone;
}

void JsonArguments::SetName(std::string name, CallWriter* out) {
  name_ = std::move(name);
  Flush(out);
}

void JsonArguments::Flush(CallWriter* out) {
  if (name_.empty() || !is_object_ || !is_certain_) return;
  if (!begun_) out->Begin(name_);
  begun_ = true;
  out->Arguments(std::exchange(held_, {}));
}

void JsonArguments::EndCall(CallWriter* out) {
  Flush(out);
  if (!begun_) {
    out->Begin(name_);
    out->Arguments(held_.empty() ? "{}" : held_);
  }
  out->End();
}

CallReader::Step JsonCall::Push(char c, CallWriter* out) {
  if (state_ == State::kKeyText) return PushKeyText(c);
  if (state_ == State::kValueText) return PushValueText(c, out);
  if (IsJsonSpace(c)) return Step::kMore;
  switch (state_) {
    case State::kOpen:
      state_ = State::kKeyOrEnd;
      return c == '{' ? Step::kMore : Step::kNoCall;
    case State::kKeyOrEnd:
    case State::kKey:
      return BeginKey(c);
    case State::kColon:
      state_ = State::kValue;
      return c == ':' ? Step::kMore : Step::kNoCall;
    case State::kValue:
      if (field_ == Field::kName && c != '"') return Step::kNoCall;
      state_ = State::kValueText;
      scanner_ = JsonScanner();
      text_.clear();
      return PushValueText(c, out);
    default:
      return PushCommaOrEnd(c, out);
  }
}

CallReader::Step JsonCall::BeginKey(char c) {
  if (c != '"') return Step::kNoCall;
  state_ = State::kKeyText;
  scanner_ = JsonScanner();
  text_.clear();
  return PushKeyText(c);
}

CallReader::Step JsonCall::PushKeyText(char c) {
  const JsonScanner::Step step = scanner_.Push(c);
  text_ += c;
  if (step == JsonScanner::Step::kBroken || text_.size() > kKeyBytesMax) return Step::kNoCall;
  return step == JsonScanner::Step::kEnd ? EndKey() : Step::kMore;
}

CallReader::Step JsonCall::EndKey() {
  state_ = State::kColon;
  const std::string key = StringIn(text_).value_or("");
  if (key == "name") {
    field_ = Field::kName;
    return arguments_.name().empty() ? Step::kMore : Step::kNoCall;
  }
  if (key == "arguments" || key == "parameters") {
    field_ = Field::kArguments;
    return std::exchange(has_arguments_, true) ? Step::kNoCall : Step::kMore;
  }
  field_ = Field::kOther;
  const bool is_usual = key == "type" || key == "id";
  return known_ == nullptr || is_usual ? Step::kMore : Step::kNoCall;
}

CallReader::Step JsonCall::PushValueText(char c, CallWriter* out) {
  const JsonScanner::Step step =
      field_ == Field::kArguments ? arguments_.Push(c, out) : scanner_.Push(c);
  if (step == JsonScanner::Step::kBroken) return Step::kNoCall;
  if (field_ == Field::kName) {
    text_ += c;
    if (text_.size() > kKeyBytesMax) return Step::kNoCall;
  }
  if (step == JsonScanner::Step::kMore) return Step::kMore;
  const Step end = EndValue(out);
  if (end == Step::kNoCall || step == JsonScanner::Step::kEnd) return end;
  return Push(c, out);
}

CallReader::Step JsonCall::EndValue(CallWriter* out) {
  state_ = State::kCommaOrEnd;
  if (field_ != Field::kName) return Step::kMore;
  std::string name = StringIn(text_).value_or("");
  if (name.empty() || (known_ != nullptr && FindTool(*known_, name) == nullptr)) {
    return Step::kNoCall;
  }
  arguments_.SetName(std::move(name), out);
  return Step::kMore;
}

CallReader::Step JsonCall::PushCommaOrEnd(char c, CallWriter* out) {
  if (c == '}') return EndCall(out);
  state_ = State::kKey;
  return c == ',' ? Step::kMore : Step::kNoCall;
}

CallReader::Step JsonCall::EndCall(CallWriter* out) {
  if (arguments_.name().empty()) return Step::kNoCall;
  if (known_ != nullptr && !has_arguments_) return Step::kNoCall;
  arguments_.EndCall(out);
  return Step::kDone;
}

bool JsonCall::Finish(CallWriter* out) {
  if (arguments_.name().empty() || !arguments_.complete()) return false;
  arguments_.EndCall(out);
  return true;
}

}  // namespace graft
