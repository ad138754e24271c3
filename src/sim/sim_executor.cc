#include "sim/sim_executor.h"

#include <algorithm>
#include <utility>

#include "base/milliseconds.h"

namespace graft {

void SimExecutor::Begin(const StepPlan& plan) {
  CHECK(plan_ == nullptr) << "one step at a time";
  plan_ = &plan;
  begin_ns_ = clock_.NowNs();
  StepWork work;
  int64_t arrival_ns = 0;
  for (const PlannedSequence& sequence : plan.sequences) {
    work.ranks.Add(loader_.RankOf(sequence.adapter_slot));
    work.prompt_tokens += sequence.num_tokens - 1;
    work.context_tokens += sequence.position_begin + sequence.num_tokens;
    arrival_ns = std::max(arrival_ns, loader_.ArrivalOf(sequence.adapter_slot));
  }
  const auto step_ns = MsToNs(costs_.StepMs(work) * slowness_);
  end_ns_ = begin_ns_ + step_ns;
  if (arrival_ns > begin_ns_) {
    end_ns_ = std::max(end_ns_, arrival_ns + step_ns / loader_.num_layers());
  }
  ++num_steps_;
  num_rows_ += static_cast<int64_t>(plan.tokens.size());
}

StepResult SimExecutor::Finish() {
  CHECK(plan_ != nullptr && clock_.NowNs() >= end_ns_) << "the step is not done";
  const StepPlan& plan = *std::exchange(plan_, nullptr);
  StepResult result;
  result.step_id = plan.step_id;
  result.sequences.resize(plan.sequences.size());
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    if (plan.sequences[i].samples) result.sequences[i].token = kSimToken;
  }
  result.times.total_ns = end_ns_ - begin_ns_;
  return result;
}

}  // namespace graft
