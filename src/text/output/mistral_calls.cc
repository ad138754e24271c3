// Mistral: [TOOL_CALLS] and then a list of {"name": ..., "arguments": {...}} (tokenizers up to v7),
// or name{...} (v11), name[CALL_ID]id[ARGS]{...}, name[ARGS]{...} (v13).
#include "text/output/json_call.h"

#include "base/strings.h"

namespace graft {
namespace {

constexpr std::string_view kArgumentsMark = "[ARGS]";
constexpr std::string_view kCallIdMark = "[CALL_ID]";
constexpr size_t kNameBytesMax = 256;

bool IsNameByte(char c) {
  return IsAsciiAlnum(c) || c == '_' || c == '-' || c == '.' || c == '/' || c == ':';
}

class MistralReader : public CallReader {
 public:
  Step Push(char c, CallWriter* out) override {
    switch (state_) {
      case State::kBegin:
        if (IsJsonSpace(c)) return Step::kMore;
        state_ = c == '[' ? State::kItem : State::kName;
        return c == '[' ? Step::kMore : PushName(c, out);
      case State::kItem:
        return PushItem(c, out);
      case State::kCommaOrEnd:
        if (IsJsonSpace(c)) return Step::kMore;
        if (c == ']') return Step::kDone;
        state_ = State::kItem;
        call_ = JsonCall();
        return c == ',' ? Step::kMore : Step::kEndedBefore;
      case State::kName:
        return PushName(c, out);
      default:
        return arguments_.PushWholeCall(c, out);
    }
  }

  bool Finish(CallWriter* out) override {
    if (state_ == State::kCommaOrEnd) return true;
    return state_ == State::kItem && call_.Finish(out);
  }

 private:
  enum class State { kBegin, kItem, kCommaOrEnd, kName, kArguments };

  Step PushItem(char c, CallWriter* out) {
    const Step step = call_.Push(c, out);
    if (step != Step::kDone) return step;
    state_ = State::kCommaOrEnd;
    return Step::kMore;
  }

  // The name, and marks with an id behind it, up to the arguments.
  Step PushName(char c, CallWriter* out) {
    if (c != '{') {
      header_ += c;
      return IsHeader() ? Step::kMore : Step::kNoCall;
    }
    const std::string name = header_.substr(0, header_.find_first_of("[ \n"));
    const bool has_open_mark = header_.find('[') != std::string::npos && !IsMarked();
    if (name.empty() || has_open_mark) return Step::kNoCall;
    state_ = State::kArguments;
    arguments_.SetName(name, out);
    return arguments_.PushWholeCall(c, out);
  }

  bool IsMarked() const { return header_.ends_with(kArgumentsMark); }

  // Whether `header_` may still become a name with what may follow it.
  bool IsHeader() const {
    if (header_.size() > kNameBytesMax) return false;
    size_t pos = 0;
    while (pos < header_.size() && IsNameByte(header_[pos])) ++pos;
    if (pos == header_.size()) return true;
    if (pos == 0) return false;
    std::string_view rest = std::string_view(header_).substr(pos);
    if (rest.starts_with(kCallIdMark)) {
      rest.remove_prefix(kCallIdMark.size());
      while (!rest.empty() && IsNameByte(rest.front())) rest.remove_prefix(1);
      return kArgumentsMark.starts_with(rest);
    }
    const bool is_blank = rest.find_first_not_of(" \n") == std::string_view::npos;
    return is_blank || kCallIdMark.starts_with(rest) || kArgumentsMark.starts_with(rest);
  }

  State state_ = State::kBegin;
  JsonCall call_;
  std::string header_;
  JsonArguments arguments_;
};

}  // namespace

std::vector<CallOpener> MistralOpeners() {
  return {{.mark = "[TOOL_CALLS]", .make = [] { return std::make_unique<MistralReader>(); }}};
}

}  // namespace graft
