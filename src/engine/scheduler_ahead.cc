// The step after the one that runs, so that the device need not wait until the host has read a
// step's tokens: decoding goes on with the same sequences nearly always.
#include <algorithm>

#include "engine/scheduler.h"

namespace graft {
namespace {

// Whether its next row but one is sure, and its draw needs nothing of the next token. Rows of a
// prompt that log-probabilities are read of after the step must not be written over by then.
bool CanRunAhead(const Sequence& sequence) {
  const SamplingParams& sampling = sequence.sampling;
  const int32_t num_output = sequence.num_output_tokens() + 1;  // with what this step draws
  return sequence.num_planned == sequence.num_pending() && !sequence.wants_prompt_logprobs() &&
         num_output < sequence.output_tokens_max && num_output >= sampling.tokens_min &&
         sampling.repetition_penalty == 1.0f && sampling.frequency_penalty == 0.0f &&
         sampling.presence_penalty == 0.0f;
}

}  // namespace

// Whoever waits might be admitted instead, or be given an adapter. That a sequence ends by its
// length is known before its token is.
bool Scheduler::CanPlanAhead() const {
  if (is_ahead_ || plan_->assists || options_.merge_after_steps > 0) return false;
  if (turn_begin_ns_ >= 0) return false;
  if (!waiting_.empty()) {
    if (!free_slots_.empty() || adapters_.is_busy()) return false;
    // Loads of those in line begin in Plan alone.
    if (options_.cold_start == ColdStart::kBlocking) return false;
  }
  return planned_.size() == running_.size() &&
         std::all_of(planned_.begin(), planned_.end(), [](const Sequence* sequence) {
           return sequence != nullptr && CanRunAhead(*sequence);
         });
}

const StepPlan* Scheduler::PlanAhead() {
  if (!CanPlanAhead()) return nullptr;
  // What nobody holds any more, and what has arrived while this step, which waited for it, runs.
  UpdateAdapters();
  if (adapters_.is_busy()) return nullptr;
  for (Sequence* const sequence : planned_) {
    while (sequence->pages.size() < PagesFor(sequence->num_tokens() + 1)) {
      if (!TakePage(*sequence)) return nullptr;
    }
  }
  is_ahead_ = true;
  ++stats_.steps_ahead;
  ahead_planned_ = planned_;
  ahead_plan_->Clear();
  ahead_plan_->step_id = plan_->step_id + 1;
  ahead_plan_->ahead = true;
  ahead_plan_->tokens.assign(planned_.size(), -1);
  for (size_t i = 0; i < planned_.size(); ++i) {
    const PlannedSequence& before = plan_->sequences[i];
    Append(*planned_[i],
           {.sequence_slot = before.sequence_slot,
            .adapter_slot = before.adapter_slot,
            .token_begin = static_cast<int32_t>(i),
            .num_tokens = 1,
            .position_begin = before.position_begin + before.num_tokens,
            .samples = true},
           ahead_plan_);
  }
  return ahead_plan_;
}

}  // namespace graft
