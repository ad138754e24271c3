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
    work.Add(loader_.RankOf(sequence.adapter_slot), sequence.num_tokens, sequence.position_begin);
    arrival_ns = std::max(arrival_ns, loader_.ArrivalOf(sequence.adapter_slot));
  }
  prompt_ms_ = costs_.PromptMs(work) * slowness_;
  other_ms_ = costs_.StepMs(work) * slowness_ - prompt_ms_;
  share_done_ = 0.0;
  since_ns_ = begin_ns_;
  const int64_t step_ns = StepNs();
  soonest_ns_ = arrival_ns > begin_ns_ ? arrival_ns + step_ns / loader_.num_layers() : 0;
  end_ns_ = std::max(begin_ns_ + step_ns, soonest_ns_);
}

int64_t SimExecutor::StepNs() const {
  return MsToNs(other_ms_ * costs_.served.DecodeSlowness(num_busy_) +
                prompt_ms_ * costs_.served.PromptSlowness(num_busy_));
}

void SimExecutor::SetBusy(int32_t num_busy) {
  if (num_busy == num_busy_) return;
  const int64_t now_ns = clock_.NowNs();
  const auto former_ns = static_cast<double>(StepNs());
  num_busy_ = num_busy;
  if (plan_ == nullptr || former_ns <= 0.0) return;
  share_done_ += static_cast<double>(now_ns - since_ns_) / former_ns;
  since_ns_ = now_ns;
  const double left = std::max(0.0, 1.0 - share_done_) * static_cast<double>(StepNs());
  end_ns_ = std::max(now_ns + static_cast<int64_t>(left), soonest_ns_);
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
