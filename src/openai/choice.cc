#include "openai/choice.h"

#include <algorithm>
#include <utility>

namespace graft {
namespace {

// The likeliest so many of them.
void AddEntry(ChoiceLogprob entry, std::span<const TokenLogprob> top, int32_t num_top,
              std::vector<ChoiceLogprob>* entries, std::vector<TokenLogprob>* tops) {
  const std::span<const TokenLogprob> kept =
      top.first(std::min(top.size(), static_cast<size_t>(num_top)));
  entry.num_top = static_cast<int32_t>(kept.size());
  entries->push_back(entry);
  tops->insert(tops->end(), kept.begin(), kept.end());
}

std::span<const TokenLogprob> PromptTop(const TokenEvent& event, size_t i) {
  if (i >= event.prompt_top_logprobs.size()) return {};
  return event.prompt_top_logprobs[i];
}

}  // namespace

void Choice::AddLogprob(ChoiceLogprob entry, std::span<const TokenLogprob> top) {
  AddEntry(entry, top, options_.num_top_logprobs, &piece_.logprobs, &piece_.tops);
}

Choice::Choice(const Tokenizer& tokenizer, ChoiceOptions options,
               std::span<const int32_t> prompt_tokens)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      detokenizer_(tokenizer, options_.skip_special_tokens, options_.kept_tokens),
      stop_matcher_(options_.stop, options_.include_stop_text) {
  if (options_.output != nullptr) parser_ = std::make_unique<OutputParser>(options_.output);
  if (options_.continues_prompt) Prime(prompt_tokens);
  if (options_.returns_token_ids) {
    piece_.prompt_token_ids.assign(prompt_tokens.begin(), prompt_tokens.end());
  }
}

// Brings the detokenizer past the start of a text with one token of the prompt that is a whole
// piece of text in itself, and drops what that gives.
void Choice::Prime(std::span<const int32_t> prompt_tokens) {
  constexpr size_t kTokensMax = 16;
  for (size_t i = 0; i < std::min(prompt_tokens.size(), kTokensMax); ++i) {
    const int32_t token = prompt_tokens[prompt_tokens.size() - 1 - i];
    Detokenizer probe(tokenizer_, options_.skip_special_tokens);
    if (probe.Push(token).empty() || !probe.Flush().empty()) continue;
    detokenizer_.Push(token);
    return;
  }
}

void Choice::Push(const TokenEvent& event) {
  if (!started_) {
    started_ = true;
    if (options_.prompt_logprobs.has_value()) TakePromptLogprobs(event);
    if (options_.echo != nullptr) Echo(event);
  }
  if (!finished()) {
    piece_.embedding = event.embedding;
    if (event.token >= 0) PushToken(event);
    if (!finished() && event.finish_reason != FinishReason::kNone) {
      if (event.finish_reason == FinishReason::kError) status_ = event.status;
      const bool lacks_embedding =
          event.finish_reason == FinishReason::kLength && options_.pools && event.embedding.empty();
      if (lacks_embedding) status_ = InternalError("the runner is of a version without embeddings");
      Finish(lacks_embedding ? FinishReason::kError : event.finish_reason);
    }
  }
  if (event.finish_reason != FinishReason::kNone) {
    closed_ = true;
    cached_tokens_ = event.usage.cached_tokens;
  }
}

void Choice::TakePromptLogprobs(const TokenEvent& event) {
  for (size_t i = 0; i < event.prompt_logprobs.size(); ++i) {
    AddEntry({.chosen = event.prompt_logprobs[i]}, PromptTop(event, i), *options_.prompt_logprobs,
             &piece_.prompt_logprobs, &piece_.prompt_tops);
  }
}

// The prompt goes out first, whole, past the stop strings.
void Choice::Echo(const TokenEvent& event) {
  if (options_.logprobs) {
    const std::vector<int32_t>& offsets = options_.echo->offsets;
    for (size_t i = 0; i < std::min(event.prompt_logprobs.size(), offsets.size()); ++i) {
      AddLogprob({.chosen = event.prompt_logprobs[i], .text_offset = offsets[i]},
                 PromptTop(event, i));
    }
  }
  decoded_chars_ = NumCodePoints(options_.echo->text);
  piece_.text = options_.echo->text;
}

void Choice::PushToken(const TokenEvent& event) {
  ++output_tokens_;
  if (options_.returns_token_ids) piece_.token_ids.push_back(event.token);
  const bool is_stop_token = event.finish_reason == FinishReason::kStop;
  if (is_stop_token && !options_.include_stop_text) return;
  if (options_.logprobs) {
    pending_.push_back(
        {.entry = {.chosen = {event.token, event.logprob}, .text_offset = decoded_chars_},
         .top = event.top_logprobs,
         .text_begin = decoded_bytes_});
  }
  const bool is_in_stop = options_.stop != nullptr && options_.stop->Spells(event.token);
  if (is_in_stop && detokenizer_.Skips(event.token)) return PushSpecial(event.token);
  PushText(detokenizer_.Push(event.token));
}

void Choice::PushSpecial(int32_t token) {
  PushText(detokenizer_.EndByteRun());
  if (finished() || output_tokens_ < options_.tokens_min) return;
  TakeMatched(stop_matcher_.PushSpecial(token, tokenizer_.TokenText(token)));
}

void Choice::PushText(const std::string& text) {
  if (text.empty()) return;
  decoded_bytes_ += text.size();
  decoded_chars_ += NumCodePoints(text);
  if (output_tokens_ < options_.tokens_min) {
    released_bytes_ += text.size();
    piece_.text += text;
    return ReleaseLogprobs(/*all=*/false);
  }
  TakeMatched(stop_matcher_.Push(text));
}

void Choice::TakeMatched(StopMatcher::Output output) {
  released_bytes_ += output.text.size();
  piece_.text += output.text;
  ReleaseLogprobs(/*all=*/false);
  if (!output.stopped) return;
  pending_.clear();  // the tokens that only spelt the stop
  finish_ = FinishReason::kStop;
}

void Choice::Finish(FinishReason finish) {
  PushText(detokenizer_.Flush());
  if (finished()) return;  // the last bytes completed a stop string
  piece_.text += stop_matcher_.Flush();
  ReleaseLogprobs(/*all=*/true);
  finish_ = finish;
}

void Choice::ReleaseLogprobs(bool all) {
  while (!pending_.empty() && (all || pending_.front().text_begin < released_bytes_)) {
    AddLogprob(pending_.front().entry, pending_.front().top);
    pending_.pop_front();
  }
}

int64_t Choice::held_bytes() const {
  const auto bytes_of = [](const auto& list) {
    return static_cast<int64_t>(list.size() * sizeof(list[0]));
  };
  const auto pending = static_cast<int64_t>(pending_.size());
  return bytes_of(piece_.text) + bytes_of(piece_.logprobs) + bytes_of(piece_.tops) +
         bytes_of(piece_.prompt_logprobs) + bytes_of(piece_.prompt_tops) +
         bytes_of(piece_.token_ids) + bytes_of(piece_.prompt_token_ids) +
         bytes_of(piece_.embedding) +
         pending * static_cast<int64_t>(sizeof(PendingLogprob) +
                                        options_.num_top_logprobs * sizeof(TokenLogprob));
}

ChoicePiece Choice::TakePiece() {
  ChoicePiece piece = std::exchange(piece_, {});
  if (options_.output != nullptr) TakeApart(&piece);
  return piece;
}

void Choice::TakeApart(ChoicePiece* piece) {
  piece->num_calls_before = num_calls_begun_;
  if (parser_ != nullptr) {
    parser_->Push(std::exchange(piece->text, {}), &piece->parts);
    if (finished()) parser_->Finish(&piece->parts);
    has_calls_ = parser_->num_calls() > 0;
    if (finished()) parser_.reset();
  }
  for (const OutputPart& part : piece->parts) {
    num_calls_begun_ += part.kind == OutputPart::Kind::kCall ? 1 : 0;
  }
  piece->has_calls = has_calls_;
}

}  // namespace graft
