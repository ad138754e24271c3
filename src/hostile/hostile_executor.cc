#include "hostile/hostile_executor.h"

#include "base/check.h"
#include "base/milliseconds.h"
#include "hostile/token_law.h"

namespace graft {

HostileExecutor::HostileExecutor(const ExecutorLimits& limits, const CostModel& costs,
                                 int32_t arithmetic, const Clock& clock, const SimLoader& loader,
                                 Findings& findings)
    : limits_(limits),
      costs_(costs),
      arithmetic_(arithmetic),
      clock_(clock),
      loader_(loader),
      findings_(findings),
      slots_(static_cast<size_t>(limits.sequences_max)),
      cells_(static_cast<size_t>(limits.num_pages) * static_cast<size_t>(limits.page_tokens)) {}

void HostileExecutor::Begin(const StepPlan& plan) {
  CHECK_EQ(plan.ahead ? 1u : 0u, steps_.size()) << "steps begun and not finished";
  for (const SequenceStart& start : plan.starts) {
    Sequence& sequence = slots_[static_cast<size_t>(start.sequence_slot)];
    sequence = {.key = start.prompt_tokens.back(), .tokens = start.prompt_tokens};
    sequence.is_resumed = !start.output_tokens.empty();
    sequence.tokens.insert(sequence.tokens.end(), start.output_tokens.begin(),
                           start.output_tokens.end());
  }
  StepWork work;
  for (const PlannedSequence& planned : plan.sequences) {
    work.Add(loader_.RankOf(planned.adapter_slot), planned.num_tokens, planned.position_begin);
  }
  const int64_t begin_ns = plan.ahead ? end_ns() : clock_.NowNs();
  const int64_t step_ns = MsToNs(costs_.StepMs(work) * slowness_);
  steps_.push_back({&plan, begin_ns + step_ns});
  if (on_begin_) on_begin_();
}

std::vector<int32_t> HostileExecutor::KeysOf(const Step& step) const {
  std::vector<int32_t> keys;
  for (const PlannedSequence& planned : step.plan->sequences) {
    keys.push_back(slots_[static_cast<size_t>(planned.sequence_slot)].key);
  }
  return keys;
}

uint64_t& HostileExecutor::Cell(const StepPlan& plan, const PlannedSequence& planned,
                                int32_t position) {
  const auto page_idx = static_cast<size_t>(planned.page_begin + position / limits_.page_tokens);
  const auto page = static_cast<size_t>(plan.pages.at(page_idx));
  return cells_.at(page * static_cast<size_t>(limits_.page_tokens) +
                   static_cast<size_t>(position % limits_.page_tokens));
}

// The cells before its rows were computed by it, or by a request with the same tokens.
void HostileExecutor::CheckPages(const StepPlan& plan, const PlannedSequence& planned,
                                 const Sequence& sequence) {
  for (int32_t position = 0; position < planned.position_begin; ++position) {
    if (Cell(plan, planned, position) == sequence.chain[static_cast<size_t>(position)]) continue;
    return findings_.Add("request {} reads a page that holds other tokens at {}", sequence.key,
                         position);
  }
}

void HostileExecutor::ComputeRows(const StepPlan& plan, const PlannedSequence& planned,
                                  Sequence& sequence) {
  for (int32_t i = 0; i < planned.num_tokens; ++i) {
    const int32_t position = planned.position_begin + i;
    const int32_t token = plan.tokens[static_cast<size_t>(planned.token_begin + i)];
    // A token of a plan that is ahead was drawn since.
    if (static_cast<size_t>(position) >= sequence.tokens.size() ||
        (plan.ahead ? -1 : sequence.tokens[static_cast<size_t>(position)]) != token) {
      return findings_.Add("request {} is fed another token at {}", sequence.key, position);
    }
    Cell(plan, planned, position) = sequence.chain[static_cast<size_t>(position)];
  }
}

StepResult HostileExecutor::Finish() {
  CHECK(!steps_.empty()) << "no step was begun";
  const StepPlan& plan = *steps_.front().plan;
  StepResult result;
  result.step_id = plan.step_id;
  drew_.clear();
  result.sequences.resize(plan.sequences.size());
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const PlannedSequence& planned = plan.sequences[i];
    Sequence& sequence = slots_[static_cast<size_t>(planned.sequence_slot)];
    const int32_t rank = loader_.RankOf(planned.adapter_slot);
    if (sequence.rank >= 0 && sequence.rank != rank) {
      findings_.Add("request {} is computed with another adapter", sequence.key);
    }
    sequence.rank = rank;
    while (sequence.chain.size() < sequence.tokens.size()) {
      const uint64_t before =
          sequence.chain.empty() ? ChainStart(arithmetic_, rank) : sequence.chain.back();
      sequence.chain.push_back(ChainNext(before, sequence.tokens[sequence.chain.size()]));
    }
    CheckPages(plan, planned, sequence);
    ComputeRows(plan, planned, sequence);
    if (!planned.samples) continue;
    result.sequences[i].token = TokenOf(sequence.chain.back()) ^
                                static_cast<int32_t>(changes_resumed_ && sequence.is_resumed);
    sequence.tokens.push_back(result.sequences[i].token);
    drew_.push_back(sequence.key);
  }
  steps_.pop_front();
  return result;
}

}  // namespace graft
