#include "engine/answer_bounds.h"

#include <algorithm>
#include <string>

#include "base/token_mask.h"

namespace graft {

void AnswerBounds::FillMask(std::span<const int32_t> output, std::span<uint32_t> words) {
  if (grammar_ == nullptr) {
    std::fill(words.begin(), words.end(), ~uint32_t{0});
  } else {
    FillByGrammar(output, words);
  }
  // A grammar may have something in between: the rest of a character, or no reasoning at all.
  if (!MustEndReasoning(output) || !IsInMask(words.data(), reasoning_.closing)) return;
  std::fill(words.begin(), words.end(), 0);
  words[static_cast<size_t>(reasoning_.closing / 32)] = uint32_t{1} << (reasoning_.closing % 32);
}

void AnswerBounds::FillByGrammar(std::span<const int32_t> output, std::span<uint32_t> words) {
  if (matcher_ == nullptr) matcher_ = grammar_->NewMatcher();
  while (num_accepted_ < output.size() && matcher_->Accept(output[num_accepted_])) ++num_accepted_;
  is_stuck_ = num_accepted_ < output.size() || !matcher_->FillMask(words);
  if (is_stuck_) std::fill(words.begin(), words.end(), 0);
}

bool AnswerBounds::MustEndReasoning(std::span<const int32_t> output) {
  if (!reasoning_.is_bound()) return false;
  for (; num_seen_ < output.size(); ++num_seen_) {
    const int32_t token = output[num_seen_];
    if (token == reasoning_.closing) {
      is_reasoning_ = false;
    } else if (token == reasoning_.opening) {
      is_reasoning_ = true;
    } else if (is_reasoning_) {
      ++num_reasoned_;
    }
  }
  return is_reasoning_ && num_reasoned_ >= reasoning_.tokens_max;
}

Status AnswerBounds::StuckStatus() const {
  return InvalidArgumentError("after " + std::to_string(num_accepted_) +
                              " tokens no token of the vocabulary goes on with the form that the "
                              "answer was to have; change "
                              "the schema or grammar");
}

}  // namespace graft
