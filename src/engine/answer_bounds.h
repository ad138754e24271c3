// What one request's answer is bound to: a grammar, an end of its reasoning, or both; and how far
// its tokens have come. Tokens are told as late as the next mask is asked for, and all of them
// where they were drawn elsewhere. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/status.h"
#include "grammar/grammar_store.h"
#include "request/request.h"

namespace graft {

class AnswerBounds {
 public:
  // `grammar`: null: any text will do.
  AnswerBounds(std::shared_ptr<const SharedGrammar> grammar, const ReasoningBound& reasoning)
      : grammar_(std::move(grammar)), reasoning_(reasoning), is_reasoning_(reasoning.is_open) {}

  bool has_grammar() const { return grammar_ != nullptr; }
  // Until then its request cannot run.
  bool is_compiled() const { return grammar_ == nullptr || grammar_->is_done(); }
  const Status& status() const { return grammar_ == nullptr ? ok_ : grammar_->status(); }

  // The tokens that may follow `output`, as words of a mask; none where `output` is not of the
  // grammar, or no token of the vocabulary goes on with it.
  void FillMask(std::span<const int32_t> output, std::span<uint32_t> words);
  // The last mask had no token.
  bool is_stuck() const { return is_stuck_; }
  // What its request is told then.
  Status StuckStatus() const;

 private:
  void FillByGrammar(std::span<const int32_t> output, std::span<uint32_t> words);
  // Whether `output` has reasoned for as long as it may, and goes on.
  bool MustEndReasoning(std::span<const int32_t> output);

  const Status ok_;
  const std::shared_ptr<const SharedGrammar> grammar_;
  std::unique_ptr<GrammarMatcher> matcher_;  // from the first mask on
  size_t num_accepted_ = 0;
  bool is_stuck_ = false;
  const ReasoningBound reasoning_;
  size_t num_seen_ = 0;  // of the output
  bool is_reasoning_;
  int32_t num_reasoned_ = 0;
};

}  // namespace graft
