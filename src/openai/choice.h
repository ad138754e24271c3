// Choice: one choice of a response. It takes the engine's events and returns text and
// log-probabilities, as soon as no stop string can take them back. A token's log-probability leaves
// together with its text. The token or string that stops a choice is no part of it unless asked
// for. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "openai/prompt_echo.h"
#include "request/token_event.h"
#include "text/detokenizer.h"
#include "text/output/output_parser.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace graft {

// One token of a response's logprobs. A whole answer's wait in memory until it is written.
struct ChoiceLogprob {
  TokenLogprob chosen;      // logprob NaN: the first token of a prompt, which nothing predicts
  int64_t text_offset = 0;  // where its text starts in the choice's text, in code points
  int32_t num_top = 0;      // alternatives
};

// The output that became certain since the last TakePiece.
struct ChoicePiece {
  std::string text;
  // In place of the text where an output is taken apart.
  OutputParts parts;
  int32_t num_calls_before = 0;  // begun before `parts`
  bool has_calls = false;        // the choice has whole calls
  std::vector<ChoiceLogprob> logprobs;
  std::vector<TokenLogprob> tops;  // the alternatives of all `logprobs`, in their order
  // The prompt's, where they are asked for by themselves.
  std::vector<ChoiceLogprob> prompt_logprobs;
  std::vector<TokenLogprob> prompt_tops;
  // Where they are asked for: the tokens that were drawn, and with the first piece the prompt's.
  std::vector<int32_t> token_ids;
  std::vector<int32_t> prompt_token_ids;
  std::vector<float> embedding;  // with the finish, where that is what was asked for
};

struct ChoiceOptions {
  std::shared_ptr<const StopStrings> stop;  // null: none; all choices of a request share them
  int32_t tokens_min = 0;                   // what comes before so many is not looked at for them
  bool include_stop_text = false;
  bool skip_special_tokens = true;
  bool logprobs = false;
  int32_t num_top_logprobs = 0;            // alternatives of these
  std::optional<int32_t> prompt_logprobs;  // asked for, with so many alternatives
  bool returns_token_ids = false;
  bool pools = false;  // an embedding is asked for, in place of tokens
  // The output continues the prompt's text (completions), rather than starting a text of its own
  // (chat): it matters where a tokenizer drops the space before a text's first word.
  bool continues_prompt = false;
  std::shared_ptr<const PromptEcho> echo;  // null: the prompt is not echoed; all choices share it
  // Takes the text apart; null: it stays one text. All choices of a request share it.
  std::shared_ptr<const OutputOptions> output;
  std::vector<int32_t> kept_tokens;  // special tokens that are not skipped
};

class Choice {
 public:
  Choice(const Tokenizer& tokenizer, ChoiceOptions options, std::span<const int32_t> prompt_tokens);

  // Takes the next event. After the finish nothing but the engine's last word is looked at.
  void Push(const TokenEvent& event);

  // Takes the output that may be sent. With what comes after the finish it is whole.
  ChoicePiece TakePiece();

  // No more text will come: a stop, the length, or a failure.
  bool finished() const { return finish_ != FinishReason::kNone; }
  // The engine is still producing what a stop string has made useless.
  bool wants_cancel() const { return finished() && !closed_; }
  // The engine's last event was here.
  bool closed() const { return closed_; }
  FinishReason finish() const { return finish_; }
  const Status& status() const { return status_; }  // why, if finish() is kError
  bool started() const { return started_; }         // some event has come
  int32_t output_tokens() const { return output_tokens_; }
  // Bytes of the output that waits for TakePiece, about.
  int64_t held_bytes() const;
  int32_t cached_tokens() const { return cached_tokens_; }  // known once closed

 private:
  struct PendingLogprob {
    ChoiceLogprob entry;
    std::vector<TokenLogprob> top;
    size_t text_begin;  // in bytes
  };

  void Prime(std::span<const int32_t> prompt_tokens);
  void Echo(const TokenEvent& event);
  void AddLogprob(ChoiceLogprob entry, std::span<const TokenLogprob> top);
  void TakePromptLogprobs(const TokenEvent& event);
  void PushToken(const TokenEvent& event);
  void PushText(const std::string& text);
  // A token that is no part of the text, but of a stop string.
  void PushSpecial(int32_t token);
  void TakeMatched(StopMatcher::Output output);
  void Finish(FinishReason finish);
  void ReleaseLogprobs(bool all);
  void TakeApart(ChoicePiece* piece);

  const Tokenizer& tokenizer_;
  ChoiceOptions options_;
  Detokenizer detokenizer_;
  StopMatcher stop_matcher_;
  std::unique_ptr<OutputParser> parser_;  // until the text has ended
  int32_t num_calls_begun_ = 0;
  bool has_calls_ = false;
  std::deque<PendingLogprob> pending_;
  ChoicePiece piece_;
  size_t decoded_bytes_ = 0;   // out of the detokenizer
  int64_t decoded_chars_ = 0;  // the same in code points, and the echoed prompt's
  size_t released_bytes_ = 0;  // out of the stop matcher
  FinishReason finish_ = FinishReason::kNone;
  Status status_;
  bool started_ = false;
  bool closed_ = false;
  int32_t output_tokens_ = 0;
  int32_t cached_tokens_ = 0;
};

}  // namespace graft
