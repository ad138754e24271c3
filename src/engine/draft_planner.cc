#include "engine/draft_planner.h"

#include <algorithm>

namespace graft {
namespace {

// Steps after which it is learned anew what drafts cost, where they did not pay, twice as many each
// time. That costs about the time of one of them, and a noisy machine may have been the reason.
constexpr int32_t kTrialStepsMin = 8;
constexpr int32_t kTrialStepsMax = 64;
// The share of the newest forecast in the average of all sequences'.
constexpr double kNewestOfAll = 0.02;

}  // namespace

bool CanDraft(const SamplingParams& sampling) {
  return sampling.repetition_penalty == 1.0f && sampling.frequency_penalty == 0.0f &&
         sampling.presence_penalty == 0.0f && sampling.bad_words.empty();
}

DraftPlanner::DraftPlanner(Sequences& sequences)
    : sequences_(sequences), trial_steps_(kTrialStepsMin) {}

bool DraftPlanner::MayDraft(const Sequence& sequence) const {
  // Before tokens_min the ends are banned from each draw.
  return sequence.lookup != nullptr && sequence.num_planned == 1 && sequence.num_pending() == 1 &&
         sequence.num_output_tokens() >= std::max(1, sequence.sampling.tokens_min);
}

// The token after the last draft is drawn, too.
int32_t DraftPlanner::RoomOf(const Sequence& sequence) const {
  return std::min(sequence.draft_tokens_max,
                  sequence.output_tokens_max - sequence.num_output_tokens() - 1);
}

void DraftPlanner::Plan(int32_t rows_left) {
  const ExecutorLimits& limits = sequences_.limits();
  if (limits.draft_tokens_max == 0) return;
  candidates_.clear();
  int32_t num_rows = 0;
  int32_t num_sequences = 0;
  for (const auto& sequence : sequences_.running()) {
    num_rows += sequence->num_planned;
    num_sequences += sequence->num_planned > 0 ? 1 : 0;
    if (!MayDraft(*sequence) || !Foresee(*sequence)) continue;
    candidates_.push_back({sequence->lookup->Acceptance(acceptance_), 0, sequence.get()});
  }
  if (candidates_.empty()) return;
  if (!Decide(Choose(num_rows, std::min(rows_left - num_rows, limits.draws_max - num_sequences)))) {
    return;
  }
  for (const Candidate& candidate : given_) Give(*candidate.sequence, candidate.count);
  for (const Candidate& candidate : candidates_) Give(*candidate.sequence, candidate.count);
}

bool DraftPlanner::AreWorthWaitingFor(std::span<Sequence* const> planned) {
  const ExecutorLimits& limits = sequences_.limits();
  if (limits.draft_tokens_max == 0) return false;
  candidates_.clear();
  for (Sequence* const sequence : planned) {
    if (!sequence->drafts.empty()) return true;  // its draws are not known yet
    if (sequence->lookup == nullptr || !Foresee(*sequence)) continue;
    // The token that is being drawn must be the one that is foreseen, too.
    const double acceptance = sequence->lookup->Acceptance(acceptance_);
    candidates_.push_back({acceptance * acceptance, 0, sequence});
  }
  if (candidates_.empty()) return false;
  const auto num_rows = static_cast<int32_t>(planned.size());
  return Decide(Choose(num_rows, std::min(limits.step_tokens_max, limits.draws_max) - num_rows));
}

bool DraftPlanner::Foresee(Sequence& sequence) {
  const PromptLookup::Forecasts forecasts =
      sequence.lookup->Extend(sequence.tokens, sequence.num_prompt_tokens);
  for (int32_t i = 0; i < forecasts.num; ++i) {
    acceptance_ += kNewestOfAll * ((i < forecasts.num_right ? 1.0 : 0.0) - acceptance_);
  }
  return sequence.lookup->has_match() && RoomOf(sequence) > 0;
}

// Gives draft by draft to the sequence with the best chance, as long as that makes tokens cheaper.
// After a while without drafts it tries all that there is room for, to learn anew what they cost.
DraftPlanner::Choice DraftPlanner::Choose(int32_t num_rows, int32_t rows_left) {
  Choice choice = {num_rows, 0, static_cast<double>(num_rows)};
  given_.clear();
  std::make_heap(candidates_.begin(), candidates_.end());
  for (; rows_left > 0 && !candidates_.empty(); --rows_left) {
    std::pop_heap(candidates_.begin(), candidates_.end());
    Candidate& best = candidates_.back();
    if (draft_costs_.is_known()) {
      const int32_t so_far = num_rows + choice.num_drafts;
      const double step_ns = draft_costs_.At(so_far);
      const double row_ns = draft_costs_.At(so_far + 1) - step_ns;
      if (best.chance * step_ns <= row_ns * choice.tokens) break;
    }
    choice.tokens += best.chance;
    ++choice.num_drafts;
    best.chance *= best.sequence->lookup->Acceptance(acceptance_);
    if (++best.count < RoomOf(*best.sequence)) {
      std::push_heap(candidates_.begin(), candidates_.end());
    } else {
      given_.push_back(best);
      candidates_.pop_back();
    }
  }
  return choice;
}

// Whether a step with these drafts makes tokens faster than steps of its rows alone.
bool DraftPlanner::Pays(const Choice& choice) const {
  if (choice.num_drafts == 0) return false;
  if (!single_costs_.is_known() || !draft_costs_.is_known()) return true;
  return choice.tokens * single_costs_.At(choice.num_rows) >
         choice.num_rows * draft_costs_.At(choice.num_rows + choice.num_drafts);
}

bool DraftPlanner::Decide(const Choice& choice) {
  const bool pays = Pays(choice);
  if (pays && draft_costs_.is_known()) {
    trial_steps_ = kTrialStepsMin;
    steps_to_trial_ = 0;
  } else if (!pays && steps_to_trial_ == 0) {
    steps_to_trial_ = trial_steps_;
    trial_steps_ = std::min(2 * trial_steps_, kTrialStepsMax);
  }
  return pays;
}

// As many as there are pages for.
void DraftPlanner::Give(Sequence& sequence, int32_t count) {
  if (count == 0) return;
  const int32_t num_pages = sequences_.PagesFor(sequence.num_tokens() + count);
  while (sequence.pages.size() < num_pages && sequences_.TakePage(sequence)) {
  }
  const int32_t room =
      sequence.pages.size() * sequences_.limits().page_tokens - sequence.num_tokens();
  count = std::min(count, room);
  if (count > 0) sequence.lookup->Draft(sequence.tokens, count, &sequence.drafts);
}

void DraftPlanner::Observe(const StepPlan& plan, int64_t step_ns) {
  const bool has_prompt =
      std::any_of(plan.sequences.begin(), plan.sequences.end(),
                  [](const PlannedSequence& one) { return one.num_tokens - one.num_drafts > 1; });
  if (plan.num_drafts == 0 && steps_to_trial_ > 0 && --steps_to_trial_ == 0) draft_costs_ = {};
  if (has_prompt) return;
  const auto num_rows = static_cast<int64_t>(plan.tokens.size());
  if (plan.num_drafts == 0) {
    has_run_ahead_ = has_run_ahead_ || plan.ahead;
    if (plan.ahead || !has_run_ahead_) single_costs_.Observe(num_rows, step_ns);
  } else if (has_drafted_) {
    draft_costs_.Observe(num_rows, step_ns);
  } else {
    has_drafted_ = true;  // a device may load kernels for the first one
  }
}

void DraftPlanner::Count(const PlannedSequence& planned, const SequenceResult& result) {
  if (planned.num_drafts == 0) return;
  SchedulerStats& stats = sequences_.stats();
  ++stats.drafts;
  stats.draft_tokens += planned.num_drafts;
  stats.accepted_draft_tokens += static_cast<int64_t>(result.further.size());
}

}  // namespace graft
