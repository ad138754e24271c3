// An executor that computes nothing and takes what a CostModel says, by the virtual clock. Every
// sequence that draws gets the same token. A step that names an adapter on its way is as long as
// its last layer takes to come and to be computed. One thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "placement/cost_model.h"
#include "sim/sim_loader.h"
#include "step/executor.h"

namespace graft {

inline constexpr int32_t kSimToken = 1;

class SimExecutor : public Executor {
 public:
  // Borrows clock and loader.
  SimExecutor(const ExecutorLimits& limits, const CostModel& costs, const Clock& clock,
              const SimLoader& loader)
      : limits_(limits), costs_(costs), clock_(clock), loader_(loader) {}

  const ExecutorLimits& limits() const override { return limits_; }
  void Begin(const StepPlan& plan) override;
  // Before end_ns() nobody calls it.
  StepResult Finish() override;

  // When the step that was begun ends.
  int64_t end_ns() const { return end_ns_; }
  int64_t num_steps() const { return num_steps_; }
  int64_t num_rows() const { return num_rows_; }

 private:
  const ExecutorLimits limits_;
  const CostModel costs_;
  const Clock& clock_;
  const SimLoader& loader_;
  const StepPlan* plan_ = nullptr;
  int64_t begin_ns_ = 0, end_ns_ = 0;
  int64_t num_steps_ = 0, num_rows_ = 0;
};

}  // namespace graft
