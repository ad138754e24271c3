// The grammar that one request's answer is bound to, and how far its tokens have come in it. Tokens
// are told as late as the next mask is asked for, and all of them where they were drawn elsewhere.
// One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "grammar/grammar_store.h"

namespace graft {

class AnswerGrammar {
 public:
  explicit AnswerGrammar(std::shared_ptr<const SharedGrammar> grammar)
      : grammar_(std::move(grammar)) {}

  // Until then its request cannot run.
  bool is_compiled() const { return grammar_->is_done(); }
  const Status& status() const { return grammar_->status(); }

  // The tokens that may follow `output`, as words of a mask; none where `output` is not of the
  // grammar, or no token of the vocabulary goes on with it.
  void FillMask(std::span<const int32_t> output, std::span<uint32_t> words);
  // The last mask had no token.
  bool is_stuck() const { return is_stuck_; }
  // What its request is told then.
  Status StuckStatus() const;

 private:
  const std::shared_ptr<const SharedGrammar> grammar_;
  std::unique_ptr<GrammarMatcher> matcher_;  // from the first mask on
  size_t num_accepted_ = 0;
  bool is_stuck_ = false;
};

}  // namespace graft
