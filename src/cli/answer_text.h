// One answer on its way from an engine's tokens to text. One thread, beside the engine's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "request/token_stream.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace graft {

class AnswerText {
 public:
  AnswerText(const Tokenizer& tokenizer, const std::vector<std::string>& stops)
      : detokenizer_(tokenizer, /*skip_special_tokens=*/true), stop_matcher_(stops, false) {}

  std::shared_ptr<TokenStream> stream() const { return stream_; }

  // Waits for the next text; false after the last.
  Result<bool> Next(std::string* text) {
    const TokenEvent event = stream_->Pop();
    if (event.finish_reason == FinishReason::kError) return event.status;
    const bool ends = event.finish_reason != FinishReason::kNone;
    text->clear();
    if (event.token >= 0 && event.finish_reason != FinishReason::kStop) {
      *text = Match(detokenizer_.Push(event.token));
    }
    if (ends && !stopped_) *text += Match(detokenizer_.Flush()) + stop_matcher_.Flush();
    return !ends && !stopped_;
  }

 private:
  std::string Match(const std::string& text) {
    if (stopped_) return "";
    StopMatcher::Output output = stop_matcher_.Push(text);
    stopped_ = output.stopped;
    return output.text;
  }

  Detokenizer detokenizer_;
  StopMatcher stop_matcher_;
  bool stopped_ = false;
  std::shared_ptr<TokenStream> stream_ = std::make_shared<TokenStream>();  // the engine's end, too
};

}  // namespace graft
