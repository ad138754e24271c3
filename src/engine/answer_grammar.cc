#include "engine/answer_grammar.h"

#include <algorithm>
#include <string>

namespace graft {

void AnswerGrammar::FillMask(std::span<const int32_t> output, std::span<uint32_t> words) {
  if (matcher_ == nullptr) matcher_ = grammar_->NewMatcher();
  while (num_accepted_ < output.size() && matcher_->Accept(output[num_accepted_])) ++num_accepted_;
  is_stuck_ = num_accepted_ < output.size() || !matcher_->FillMask(words);
  if (is_stuck_) std::fill(words.begin(), words.end(), 0);
}

Status AnswerGrammar::StuckStatus() const {
  return InvalidArgumentError("after " + std::to_string(num_accepted_) +
                              " tokens no token of the vocabulary goes on with the form that the "
                              "answer was to have; change "
                              "the schema or grammar");
}

}  // namespace graft
