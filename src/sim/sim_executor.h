// An executor that computes nothing and takes what a CostModel says, by the virtual clock. Every
// sequence that draws gets the same token. A step that names an adapter on its way is as long as
// its last layer takes to come and to be computed. While other runners of its machine compute it is
// slower. One thread.
#pragma once

#include <cstdint>

#include "base/clock.h"
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
  void Begin(const StepPlan& plan) override;
  // Not called before end_ns().
  StepResult Finish() override;

  // Steps take so many times what the costs say, from the next one on.
  void set_slowness(double slowness) { slowness_ = slowness; }
  // So many runners of the machine compute from now on, this one included: what is left of the step
  // takes as many times as long as that makes it.
  void SetBusy(int32_t num_busy);
  // The step that was begun ends at once.
  void EndNow() { end_ns_ = clock_.NowNs(); }
  // When the step that was begun ends.
  int64_t end_ns() const { return end_ns_; }

 private:
  // The time of the whole step, with as many runners busy as there are.
  int64_t StepNs() const;

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
