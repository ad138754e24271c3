// SimExecutor: an executor that computes nothing and takes the time that a CostModel says, by the
// virtual clock. Every sequence that draws gets the same token. A step with an adapter that is
// still arriving takes until the adapter's last layer has arrived and is computed. Steps are slower
// while other runners of the machine compute. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/clock.h"
#include "base/milliseconds.h"
#include "placement/cost_model.h"
#include "sim/sim_loader.h"
#include "step/executor.h"

namespace graft {

inline constexpr int32_t kSimToken = 1;  // that all draw
inline constexpr int32_t kSimVocabSize = 1 << 20;

class SimExecutor : public Executor {
 public:
  // Borrows clock and loader.
  SimExecutor(const ExecutorLimits& limits, const CostModel& costs, const Clock& clock,
              const SimLoader& loader)
      : limits_(limits), costs_(costs), clock_(clock), loader_(loader) {}

  const ExecutorLimits& limits() const override { return limits_; }
  void Begin(const StepPlan& plan) override {
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

  // Not called before end_ns().
  StepResult Finish() override {
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

  // Steps take so many times what the costs say, from the next one on.
  void set_slowness(double slowness) { slowness_ = slowness; }
  // So many runners of the machine compute from now on, this one included: what is left of the step
  // takes as many times as long as that makes it.
  void SetBusy(int32_t num_busy) {
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

  // The step that was begun ends at once.
  void EndNow() { end_ns_ = clock_.NowNs(); }
  // When the step that was begun ends.
  int64_t end_ns() const { return end_ns_; }

 private:
  // The time of the whole step, with as many runners busy as there are.
  int64_t StepNs() const {
    return MsToNs(other_ms_ * costs_.served.DecodeSlowness(num_busy_) +
                  prompt_ms_ * costs_.served.PromptSlowness(num_busy_));
  }

  const ExecutorLimits limits_;
  const CostModel costs_;
  const Clock& clock_;
  const SimLoader& loader_;
  const StepPlan* plan_ = nullptr;
  double slowness_ = 1.0;
  int32_t num_busy_ = 1;
  // The step that was begun: the time that it takes alone; the share done by `since_ns_`; and when
  // it ends at the soonest, for its adapters' sake.
  double prompt_ms_ = 0.0, other_ms_ = 0.0;
  double share_done_ = 0.0;
  int64_t since_ns_ = 0, soonest_ns_ = 0;
  int64_t begin_ns_ = 0, end_ns_ = 0;
};

}  // namespace graft
