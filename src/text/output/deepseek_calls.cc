// DeepSeek: a list of calls between marks. V3 and R1 write "function", a mark, the name and fenced
// JSON; V3.1 writes the name, a mark and JSON.
#include <utility>

#include "base/strings.h"
#include "text/output/json_call.h"

namespace graft {
namespace {

constexpr std::string_view kCallsBegin = "<｜tool▁calls▁begin｜>";
constexpr std::string_view kCallsEnd = "<｜tool▁calls▁end｜>";
constexpr std::string_view kCallBegin = "<｜tool▁call▁begin｜>";
constexpr std::string_view kCallEnd = "<｜tool▁call▁end｜>";
constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
constexpr size_t kHeaderBytesMax = 512;

class DeepSeekReader : public CallReader {
 public:
  // `in_call`: the mark of a call, not of the list, was read.
  explicit DeepSeekReader(bool in_call)
      : state_(in_call ? State::kHeader : State::kCallOrEnd), in_list_(!in_call) {}

  Step Push(char c, CallWriter* out) override {
    switch (state_) {
      case State::kCallOrEnd:
        return PushCallOrEnd(c);
      case State::kHeader:
        return PushHeader(c, out);
      case State::kArguments:
        return PushArguments(c, out);
      default:
        return PushCallEnd(c);
    }
  }

  // A whole call was written; of the list's marks nothing is text.
  bool Finish(CallWriter*) override {
    return state_ == State::kCallEnd || (state_ == State::kCallOrEnd && num_calls_ > 0);
  }

 private:
  enum class State { kCallOrEnd, kHeader, kArguments, kCallEnd };

  // White space and then one of two marks.
  Step PushCallOrEnd(char c) {
    if (text_.empty() && IsJsonSpace(c)) return Step::kMore;
    text_ += c;
    if (text_ == kCallBegin) {
      state_ = State::kHeader;
      text_.clear();
      arguments_ = JsonArguments();
      return Step::kMore;
    }
    if (in_list_ && text_ == kCallsEnd) return Step::kDone;
    if (kCallBegin.starts_with(text_) || (in_list_ && kCallsEnd.starts_with(text_))) {
      return Step::kMore;
    }
    return num_calls_ > 0 ? Step::kEndedBefore : Step::kNoCall;
  }

  // "function", the separator, the name and a fence; or the name and the separator.
  Step PushHeader(char c, CallWriter* out) {
    const size_t separator = text_.find(kSeparator);
    if (c != '{' || separator == std::string::npos) {
      text_ += c;
      return text_.size() > kHeaderBytesMax ? Step::kNoCall : Step::kMore;
    }
    std::string_view name = Trimmed(std::string_view(text_).substr(0, separator), kJsonSpace);
    std::string_view rest =
        Trimmed(std::string_view(text_).substr(separator + kSeparator.size()), kJsonSpace);
    if (!rest.empty()) {
      const size_t fence = rest.find("```");
      has_fence_ = fence != std::string_view::npos;
      if (has_fence_ && rest.substr(fence) != "```json" && rest.substr(fence) != "```") {
        return Step::kNoCall;
      }
      name = Trimmed(rest.substr(0, fence), kJsonSpace);
    }
    if (name.empty() || name.find_first_of(" \n<") != std::string_view::npos) return Step::kNoCall;
    arguments_.SetName(std::string(name), out);
    state_ = State::kArguments;
    return PushArguments(c, out);
  }

  Step PushArguments(char c, CallWriter* out) {
    const Step step = arguments_.PushWholeCall(c, out);
    if (step != Step::kDone) return step;
    ++num_calls_;
    closing_ = ClosingMark(has_fence_ ? "```" : kCallEnd);
    state_ = State::kCallEnd;
    return Step::kMore;
  }

  // The fence's end, and then the call's.
  Step PushCallEnd(char c) {
    const Step step = closing_.Push(c);
    if (step != Step::kDone) return step;
    if (std::exchange(has_fence_, false)) {
      closing_ = ClosingMark(kCallEnd);
      return Step::kMore;
    }
    state_ = State::kCallOrEnd;
    text_.clear();
    return Step::kMore;
  }

  State state_;
  const bool in_list_;
  std::string text_;
  bool has_fence_ = false;
  int num_calls_ = 0;
  JsonArguments arguments_;
  ClosingMark closing_{kCallEnd};
};

}  // namespace

std::vector<CallOpener> DeepSeekOpeners() {
  return {{.mark = kCallsBegin, .make = [] { return std::make_unique<DeepSeekReader>(false); }},
          {.mark = kCallBegin, .make = [] { return std::make_unique<DeepSeekReader>(true); }}};
}

}  // namespace graft
