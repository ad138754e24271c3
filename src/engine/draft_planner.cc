#include "engine/draft_planner.h"

#include <algorithm>

namespace graft {
namespace {

// Steps without drafts after it was found that they do not pay, twice as many each time. Finding it
// out again costs about the time of one of them, and a noisy machine may have been the reason.
constexpr int32_t kRestStepsMin = 8;
constexpr int32_t kRestStepsMax = 64;

}  // namespace

bool CanDraft(const SamplingParams& sampling) {
  return sampling.repetition_penalty == 1.0f && sampling.frequency_penalty == 0.0f &&
         sampling.presence_penalty == 0.0f && sampling.bad_words.empty();
}

DraftPlanner::DraftPlanner(Sequences& sequences)
    : sequences_(sequences), rest_steps_(kRestStepsMin) {}

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
  const SchedulerOptions& options = sequences_.options();
  if (options.draft_tokens_max == 0 || is_resting()) return;
  Foresee();
  if (candidates_.empty()) return;
  int32_t num_rows = 0;
  int32_t num_sequences = 0;
  for (const auto& sequence : sequences_.running()) {
    num_rows += sequence->num_planned;
    num_sequences += sequence->num_planned > 0 ? 1 : 0;
  }
  Share(num_rows, std::min(rows_left - num_rows, options.draws_max - num_sequences));
}

void DraftPlanner::Foresee() {
  candidates_.clear();
  for (const auto& sequence : sequences_.running()) {
    if (!MayDraft(*sequence)) continue;
    sequence->lookup->Extend(sequence->tokens, sequence->num_prompt_tokens);
    if (!sequence->lookup->has_match() || RoomOf(*sequence) <= 0) continue;
    candidates_.push_back({sequence->lookup->acceptance(), 0, sequence.get()});
  }
}

// One draft after the other to whose chance is best, as long as tokens become cheaper by it.
void DraftPlanner::Share(int32_t num_rows, int32_t rows_left) {
  const bool is_known = draft_costs_.is_known();
  const int32_t num_single = num_rows;
  double tokens = num_rows;
  given_.clear();
  std::make_heap(candidates_.begin(), candidates_.end());
  while (rows_left > 0 && !candidates_.empty()) {
    std::pop_heap(candidates_.begin(), candidates_.end());
    Candidate& best = candidates_.back();
    if (is_known) {
      const double step_ns = draft_costs_.At(num_rows);
      const double row_ns = draft_costs_.At(num_rows + 1) - step_ns;
      if (best.chance * step_ns <= row_ns * tokens) break;
    }
    tokens += best.chance;
    ++num_rows;
    --rows_left;
    best.chance *= best.sequence->lookup->acceptance();
    if (++best.count < RoomOf(*best.sequence)) {
      std::push_heap(candidates_.begin(), candidates_.end());
    } else {
      given_.push_back(best);
      candidates_.pop_back();
    }
  }
  // After a rest all that there is room for are tried, and what they cost is learned anew.
  if (!Pays(num_single, num_rows - num_single, tokens)) {
    num_to_rest_ = rest_steps_;
    rest_steps_ = std::min(2 * rest_steps_, kRestStepsMax);
    draft_costs_ = {};
    return;
  }
  if (draft_costs_.is_known()) rest_steps_ = kRestStepsMin;
  for (const Candidate& candidate : given_) Give(*candidate.sequence, candidate.count);
  for (const Candidate& candidate : candidates_) Give(*candidate.sequence, candidate.count);
}

// Whether a step with so many drafts makes these tokens faster than steps of these rows alone.
bool DraftPlanner::Pays(int32_t num_rows, int32_t num_drafts, double tokens) const {
  if (num_drafts == 0) return false;
  if (!single_costs_.is_known() || !draft_costs_.is_known()) return true;
  return tokens * single_costs_.At(num_rows) > num_rows * draft_costs_.At(num_rows + num_drafts);
}

// As many as there are pages for.
void DraftPlanner::Give(Sequence& sequence, int32_t count) {
  if (count == 0) return;
  const int32_t num_pages = sequences_.PagesFor(sequence.num_tokens() + count);
  while (sequence.pages.size() < num_pages && sequences_.TakePage(sequence)) {
  }
  const int32_t room =
      sequence.pages.size() * sequences_.options().page_tokens - sequence.num_tokens();
  count = std::min(count, room);
  if (count > 0) sequence.lookup->Draft(sequence.tokens, count, &sequence.drafts);
}

void DraftPlanner::Observe(const StepPlan& plan, int64_t step_ns) {
  const bool has_prompt =
      std::any_of(plan.sequences.begin(), plan.sequences.end(),
                  [](const PlannedSequence& one) { return one.num_tokens - one.num_drafts > 1; });
  if (plan.num_drafts == 0 && num_to_rest_ > 0) --num_to_rest_;
  if (has_prompt) return;
  const auto num_rows = static_cast<int64_t>(plan.tokens.size());
  if (plan.num_drafts == 0) {
    single_costs_.Observe(num_rows, step_ns);
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
