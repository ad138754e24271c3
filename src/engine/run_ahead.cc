#include "engine/run_ahead.h"

#include <algorithm>
#include <utility>

namespace graft {
namespace {

// Whether its next row but one is sure, and its draw needs nothing of the next token. Rows of a
// prompt that log-probabilities are read of after the step must not be written over by then.
bool CanRunAhead(Sequence& sequence) {
  const SamplingParams& sampling = sequence.sampling;
  const int32_t num_output = sequence.num_output_tokens() + 1;  // with what this step draws
  return sequence.num_planned == sequence.num_pending() && !sequence.wants_prompt_logprobs() &&
         num_output < sequence.output_tokens_max && num_output >= sampling.tokens_min &&
         sampling.repetition_penalty == 1.0f && sampling.frequency_penalty == 0.0f &&
         sampling.presence_penalty == 0.0f && sampling.bad_words.empty();
}

// Sequences without their masks would have no row in a plan that is made now either.
size_t NumLeftOut(const Sequences::List& running) {
  return static_cast<size_t>(std::count_if(running.begin(), running.end(), [](const auto& one) {
    return one->num_planned == 0 && one->num_pending() == 1 && one->bounds != nullptr &&
           one->bounds->is_waiting();
  }));
}

}  // namespace

// Nothing is planned ahead where a request that waits might be admitted, or be given an adapter.
// That a sequence ends by its length is known before its token is.
bool RunAhead::CanPlan(const StepPlan& running, std::span<Sequence* const> planned) const {
  const SchedulerOptions& options = sequences_.options();
  if (sequences_.is_ahead() || running.bridges) return false;
  if (walk_.is_turn()) return false;
  if (!sequences_.line().empty()) {
    if (sequences_.has_slot() || sequences_.adapters().is_busy()) return false;
    if (sequences_.line().CouldTakePlace()) return false;
    // Loads of those in line begin in a plan alone.
    if (options.cold_start == ColdStart::kBlocking) return false;
  }
  return planned.size() + NumLeftOut(sequences_.running()) == sequences_.running().size() &&
         std::all_of(
             planned.begin(), planned.end(),
             [](Sequence* sequence) { return sequence != nullptr && CanRunAhead(*sequence); }) &&
         !drafts_.AreWorthWaitingFor(planned);
}

const StepPlan* RunAhead::Plan(const StepPlan& running, const std::vector<Sequence*>& planned) {
  if (!CanPlan(running, planned)) return nullptr;
  // Contents may be held no longer, and adapters that this step waited for have arrived.
  sequences_.UpdateAdapters();
  if (sequences_.adapters().is_busy()) return nullptr;
  for (Sequence* const sequence : planned) {
    while (sequence->pages.size() < sequences_.PagesFor(sequence->num_tokens() + 1)) {
      if (!sequences_.TakePage(*sequence)) return nullptr;
    }
  }
  sequences_.BeginAhead(planned);
  ++sequences_.stats().steps_ahead;
  plan_->Clear();
  plan_->step_id = running.step_id + 1;
  plan_->ahead = true;
  plan_->tokens.assign(planned.size(), -1);
  for (size_t i = 0; i < planned.size(); ++i) {
    const PlannedSequence& before = running.sequences[i];
    const int32_t position = before.position_begin + before.num_tokens;
    sequences_.AppendRows(*planned[i],
                          {.sequence_slot = before.sequence_slot,
                           .adapter_slot = before.adapter_slot,
                           .token_begin = static_cast<int32_t>(i),
                           .num_tokens = 1,
                           .num_base_rows = planned[i]->NumBaseRows(position, 1),
                           .position_begin = position,
                           .samples = true,
                           .has_mask = before.has_mask},
                          plan_);
  }
  return plan_;
}

void RunAhead::TakeOver(StepPlan** plan, std::vector<Sequence*>* planned) {
  std::swap(*plan, plan_);
  sequences_.EndAhead(planned);
}

}  // namespace graft
