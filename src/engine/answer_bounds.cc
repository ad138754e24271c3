#include "engine/answer_bounds.h"

#include <algorithm>
#include <utility>

#include "base/token_mask.h"

namespace graft {
namespace {

// A matcher that had no time begins anew, and is told all tokens again. So that this stays linear,
// each time so many times as many masks are made beside the steps from then on.
constexpr int64_t kMoreAhead = 4;
constexpr int64_t kAheadMax = int64_t{1} << 24;  // more tokens than any answer has

}  // namespace

AnswerBounds::AnswerBounds(const std::shared_ptr<const SharedGrammar>& grammar,
                           const ReasoningBound& reasoning, Ends ends, GrammarStore* grammars,
                           std::string tenant)
    : origin_{.grammar = grammar, .room = grammar == nullptr ? nullptr : grammars->RoomOf(tenant)},
      ends_(std::move(ends)),
      grammars_(grammars),
      tenant_(std::move(tenant)),
      reasoning_(reasoning),
      is_reasoning_(reasoning.is_open) {}

AnswerBounds::~AnswerBounds() {
  if (work_ != nullptr) work_->stops = true;
}

bool AnswerBounds::FillMask(std::span<const int32_t> output, std::span<uint32_t> words,
                            std::atomic<int64_t>* all_left_ns) {
  if (!has_grammar()) {
    std::fill(words.begin(), words.end(), ~uint32_t{0});
  } else if (!FillByGrammar(output, words, all_left_ns)) {
    is_late_ = true;
    return false;
  }
  is_late_ = false;
  // A grammar may have something in between: the rest of a character, or no reasoning at all.
  if (!MustEndReasoning(output) || !IsInMask(words.data(), reasoning_.closing)) return true;
  std::fill(words.begin(), words.end(), 0);
  words[static_cast<size_t>(reasoning_.closing / 32)] = uint32_t{1} << (reasoning_.closing % 32);
  return true;
}

bool AnswerBounds::FillByGrammar(std::span<const int32_t> output, std::span<uint32_t> words,
                                 std::atomic<int64_t>* all_left_ns) {
  num_words_ = words.size();
  if (is_waiting()) return false;
  if (work_ != nullptr) TakeWork();
  if (!made_.empty()) {
    std::copy(made_.begin(), made_.end(), words.begin());
    made_.clear();
  } else if ((num_ahead_ > 0 || *all_left_ns <= 0) && !is_stuck_) {
    return false;
  } else if (!is_stuck_) {
    GrammarTime time = {.left_ns = kStepNsMax};
    const auto tokens = output.subspan(std::min(match_.num_accepted, output.size()));
    const GrammarAnswer answer = Ask(origin_, tokens, /*for_each=*/false, &match_, words, &time);
    used_ns_ += kStepNsMax - time.left_ns;
    *all_left_ns -= kStepNsMax - time.left_ns;
    if (answer == GrammarAnswer::kOutOfTime) {
      num_ahead_ = std::exchange(next_ahead_, std::min(next_ahead_ * kMoreAhead, kAheadMax));
      return false;
    }
    is_stuck_ = match_.is_stuck;
  }
  if (is_stuck_) {
    std::fill(words.begin(), words.end(), 0);
  } else {
    AddEnds(words);
  }
  return true;
}

// An adapter that learned to end its answers with a token of its own would otherwise have to go on
// where the form is complete, or end with a token that it does not know as an end.
void AnswerBounds::AddEnds(std::span<uint32_t> words) const {
  const auto may_come = [&](int32_t token) { return IsInMask(words.data(), token); };
  if (std::none_of(ends_.of_model.begin(), ends_.of_model.end(), may_come)) return;
  for (const int32_t token : ends_.of_request) AddToMask(token, words.data());
}

// `tokens` are those that the matcher has not accepted; `for_each`: the time is for one call alone.
GrammarAnswer AnswerBounds::Ask(const Origin& origin, std::span<const int32_t> tokens,
                                bool for_each, Match* match, std::span<uint32_t> words,
                                GrammarTime* time) {
  const int64_t limit_ns = time->left_ns;
  int64_t used_ns = 0;
  const auto end_call = [&] {
    if (!for_each) return;
    used_ns += limit_ns - time->left_ns;
    time->left_ns = limit_ns;
  };
  GrammarAnswer answer = GrammarAnswer::kYes;
  if (match->matcher == nullptr) match->matcher = origin.grammar->NewMatcher(origin.room);
  for (const int32_t token : tokens) {
    if (time->left_ns <= 0) return GrammarAnswer::kOutOfTime;  // the matcher may go on elsewhere
    answer = match->matcher->Accept(token, time);
    end_call();
    if (answer != GrammarAnswer::kYes) break;
    ++match->num_accepted;
  }
  if (answer == GrammarAnswer::kYes) {
    if (time->left_ns <= 0) return GrammarAnswer::kOutOfTime;
    answer = match->matcher->FillMask(words, time);
    end_call();
  }
  match->is_stuck = answer == GrammarAnswer::kNo;
  if (answer == GrammarAnswer::kOutOfTime) *match = Match();
  if (for_each) time->left_ns = limit_ns - used_ns;
  return answer;
}

void AnswerBounds::WorkAhead(std::span<const int32_t> output) {
  const bool is_wanted = is_late_ || (num_ahead_ > 0 && !is_stuck_);
  if (!has_grammar() || num_words_ == 0 || work_ != nullptr || !is_wanted) return;
  num_ahead_ = std::max<int64_t>(0, num_ahead_ - 1);
  work_ = std::make_shared<Work>();
  work_->origin = origin_;
  work_->match = std::exchange(match_, {});
  const auto tokens = output.subspan(std::min(work_->match.num_accepted, output.size()));
  work_->tokens.assign(tokens.begin(), tokens.end());
  work_->words.resize(num_words_);
  grammars_->Run(tenant_, [work = work_] { MakeMask(*work); });
}

// On a thread of the grammars.
void AnswerBounds::MakeMask(Work& work) {
  if (!work.stops) {
    GrammarTime time = {.left_ns = kTokenNsMax, .stops = &work.stops};
    const GrammarAnswer answer =
        Ask(work.origin, work.tokens, /*for_each=*/true, &work.match, work.words, &time);
    work.used_ns = kTokenNsMax - time.left_ns;
    work.is_over = answer == GrammarAnswer::kOutOfTime;
  }
  work.is_done = true;
}

void AnswerBounds::TakeWork() {
  match_ = std::move(work_->match);
  used_ns_ += work_->used_ns;
  is_over_ = work_->is_over;
  is_stuck_ = is_over_ || match_.is_stuck;
  made_ = std::move(work_->words);
  work_.reset();
}

int32_t AnswerBounds::TakeServed() {
  const int64_t tokens = used_ns_ / kServedTokenNs;
  used_ns_ -= tokens * kServedTokenNs;
  return static_cast<int32_t>(tokens);
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
  if (is_over_) {
    return InvalidArgumentError(
        "it takes too long to tell which tokens go on with the form that the answer was to have; "
        "send a simpler schema or grammar");
  }
  return InvalidArgumentError("after " + std::to_string(match_.num_accepted) +
                              " tokens no token of the vocabulary goes on with the form that the "
                              "answer was to have; change the schema or grammar");
}

}  // namespace graft
