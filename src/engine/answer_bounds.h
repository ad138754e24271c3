// AnswerBounds: what one request's answer is bound to (a grammar, an end of its reasoning, or
// both), and how far its tokens have come. The grammar is told drawn tokens only when the next mask
// is asked for, and all tokens if they were drawn elsewhere. A mask that takes longer than a step
// may wait is made on the grammars' threads, and its sequence draws in a later step. One thread at
// a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "grammar/grammar_store.h"
#include "request/request.h"

namespace graft {

class AnswerBounds {
 public:
  // The most time of a core for one token of one answer: within a step, which holds up all others,
  // and beside the steps.
  static constexpr int64_t kStepNsMax = 3'000'000;
  static constexpr int64_t kTokenNsMax = 1'000'000'000;
  // For all masks of a step together. Those that are begun within it are made to their ends.
  static constexpr int64_t kAllNsMax = 30'000'000;
  // So much of a core's time for masks counts as one token that the tenant was served.
  static constexpr int64_t kServedTokenNs = 1'000'000;

  // Tokens that end an answer. A grammar knows the model's.
  struct Ends {
    std::vector<int32_t> of_model;
    std::vector<int32_t> of_request;  // may come wherever one of the model's may
  };

  // `grammar`: null: any text will do. `grammars`, borrowed, has it and works for `tenant`.
  AnswerBounds(const std::shared_ptr<const SharedGrammar>& grammar, const ReasoningBound& reasoning,
               Ends ends, GrammarStore* grammars, std::string tenant);
  ~AnswerBounds();
  AnswerBounds(const AnswerBounds&) = delete;
  AnswerBounds& operator=(const AnswerBounds&) = delete;

  bool has_grammar() const { return origin_.grammar != nullptr; }
  // Until then its request cannot run.
  bool is_compiled() const { return !has_grammar() || origin_.grammar->is_done(); }
  const Status& status() const { return has_grammar() ? origin_.grammar->status() : ok_; }

  // Called within a step. Fills `words` with a mask of the tokens that may follow `output`. The
  // mask is empty if `output` does not follow the grammar, or no token of the vocabulary continues
  // it. Returns false if the mask takes too long, or if the step's other masks have used up
  // `all_left_ns`; `words` mean nothing then.
  bool FillMask(std::span<const int32_t> output, std::span<uint32_t> words,
                std::atomic<int64_t>* all_left_ns);
  // Behind a step of which `output` is the outcome: begins on the next mask beside the steps, where
  // it takes long.
  void WorkAhead(std::span<const int32_t> output);
  // It is being made, and a step without it would be in vain.
  bool is_waiting() const { return work_ != nullptr && !work_->is_done.load(); }
  // What masks took since the last call, as tokens.
  int32_t TakeServed();
  // The last mask had no token.
  bool is_stuck() const { return is_stuck_; }
  // What its request is told then.
  Status StuckStatus() const;

 private:
  // What matchers are made of, and where their states count.
  struct Origin {
    std::shared_ptr<const SharedGrammar> grammar;
    std::shared_ptr<GrammarRoom> room;
  };
  // How far a matcher has come.
  struct Match {
    std::unique_ptr<GrammarMatcher> matcher;  // null: it must begin anew
    size_t num_accepted = 0;
    bool is_stuck = false;
  };
  // A mask that is made beside the steps. The sequence that waits for it may go meanwhile.
  struct Work {
    Origin origin;
    Match match;
    std::vector<int32_t> tokens;  // those that are not accepted yet
    std::vector<uint32_t> words;
    int64_t used_ns = 0;
    bool is_over = false;  // it took longer than any mask may
    std::atomic<bool> stops{false};
    std::atomic<bool> is_done{false};
  };

  static GrammarAnswer Ask(const Origin& origin, std::span<const int32_t> tokens, bool for_each,
                           Match* match, std::span<uint32_t> words, GrammarTime* time);
  static void MakeMask(Work& work);
  bool FillByGrammar(std::span<const int32_t> output, std::span<uint32_t> words,
                     std::atomic<int64_t>* all_left_ns);
  void AddEnds(std::span<uint32_t> words) const;
  void TakeWork();
  // Whether `output` has reasoned for as long as it may, and goes on.
  bool MustEndReasoning(std::span<const int32_t> output);

  const Status ok_;
  const Origin origin_;
  const Ends ends_;
  GrammarStore* const grammars_;
  const std::string tenant_;
  Match match_;
  bool is_stuck_ = false;
  bool is_over_ = false;
  bool is_late_ = false;        // the last mask was not made
  size_t num_words_ = 0;        // of a mask, once one was asked for
  int64_t used_ns_ = 0;         // and not taken yet
  std::shared_ptr<Work> work_;  // shared with the thread that does it
  std::vector<uint32_t> made_;  // of the output so far, where a mask was made ahead
  int64_t num_ahead_ = 0;       // the next so many masks are made beside the steps
  int64_t next_ahead_ = 1;      // what that becomes where a step cannot wait again
  const ReasoningBound reasoning_;
  size_t num_seen_ = 0;  // of the output
  bool is_reasoning_;
  int32_t num_reasoned_ = 0;
};

}  // namespace graft
