// One answer on its way from an engine's tokens to text. One thread, beside the engine's.
#pragma once

#include <memory>
#include <string>
#include <utility>
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
      : tokenizer_(tokenizer),
        stops_(std::make_shared<const StopStrings>(stops, tokenizer)),
        detokenizer_(tokenizer, /*skip_special_tokens=*/true),
        stop_matcher_(stops_, false) {}

  std::shared_ptr<TokenStream> stream() const { return stream_; }

  // Waits for the next text; false after the last.
  Result<bool> Next(std::string* text) {
    const TokenEvent event = stream_->Pop();
    if (event.finish_reason == FinishReason::kError) return event.status;
    const bool ends = event.finish_reason != FinishReason::kNone;
    text->clear();
    if (event.token >= 0 && event.finish_reason != FinishReason::kStop) {
      *text = TextOf(event.token);
    }
    if (ends && !stopped_) *text += Match(detokenizer_.Flush()) + stop_matcher_.Flush();
    return !ends && !stopped_;
  }

 private:
  std::string TextOf(int32_t token) {
    if (!stops_->Spells(token) || !detokenizer_.Skips(token)) {
      return Match(detokenizer_.Push(token));
    }
    std::string text = Match(detokenizer_.EndByteRun());
    return text + Take(stop_matcher_.PushSpecial(token, tokenizer_.TokenText(token)));
  }
  std::string Match(const std::string& text) { return Take(stop_matcher_.Push(text)); }
  std::string Take(StopMatcher::Output output) {
    stopped_ = output.stopped;
    return std::move(output.text);
  }

  const Tokenizer& tokenizer_;
  const std::shared_ptr<const StopStrings> stops_;
  Detokenizer detokenizer_;
  StopMatcher stop_matcher_;
  bool stopped_ = false;
  std::shared_ptr<TokenStream> stream_ = std::make_shared<TokenStream>();  // the engine's end, too
};

}  // namespace graft
