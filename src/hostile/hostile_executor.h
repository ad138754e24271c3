// HostileExecutor: an executor that draws tokens by token_law and takes the time that a CostModel
// says. It remembers what each page holds, and so finds a plan that feeds other tokens than the
// request's, or reads pages that hold something else. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "hostile/findings.h"
#include "placement/cost_model.h"
#include "sim/sim_loader.h"
#include "step/executor.h"

namespace graft {

class HostileExecutor : public Executor {
 public:
  // Borrows clock, loader and findings.
  HostileExecutor(const ExecutorLimits& limits, const CostModel& costs, int32_t arithmetic,
                  const Clock& clock, const SimLoader& loader, Findings& findings);

  const ExecutorLimits& limits() const override { return limits_; }
  void Begin(const StepPlan& plan) override;
  // Also before end_ns(), of a runner that ends.
  StepResult Finish() override;

  // When the step that was begun first ends.
  int64_t end_ns() const { return steps_.front().end_ns; }
  // Steps take so many times as long.
  void set_slowness(double slowness) { slowness_ = slowness; }
  // Called when a step begins.
  void SetOnBegin(std::function<void()> on_begin) { on_begin_ = std::move(on_begin); }
  // Requests that began elsewhere draw other tokens than they would there; a defect.
  void ChangeResumed() { changes_resumed_ = true; }
  // The last tokens of the prompts in the step that runs, by which the simulation knows its
  // requests.
  std::vector<int32_t> InStep() const { return KeysOf(steps_.front()); }
  // The same of the step that was begun last, ahead of the other's end.
  std::vector<int32_t> InLastBegun() const { return KeysOf(steps_.back()); }
  // The same of the requests that drew in the last step.
  const std::vector<int32_t>& Drew() const { return drew_; }

 private:
  struct Sequence {
    int32_t key = -1;             // the prompt's last token
    std::vector<int32_t> tokens;  // prompt, and drawn so far
    std::vector<uint64_t> chain;  // by position, as far as computed
    int32_t rank = -1;            // of its adapter; -1: not known yet
    bool is_resumed = false;      // it has drawn elsewhere, or before it was evicted
  };

  struct Step {
    const StepPlan* plan = nullptr;
    int64_t end_ns = 0;
  };

  std::vector<int32_t> KeysOf(const Step& step) const;
  void CheckPages(const StepPlan& plan, const PlannedSequence& planned, const Sequence& sequence);
  void ComputeRows(const StepPlan& plan, const PlannedSequence& planned, Sequence& sequence);
  uint64_t& Cell(const StepPlan& plan, const PlannedSequence& planned, int32_t position);

  const ExecutorLimits limits_;
  const CostModel costs_;
  const int32_t arithmetic_;
  const Clock& clock_;
  const SimLoader& loader_;
  Findings& findings_;
  std::function<void()> on_begin_;
  double slowness_ = 1.0;
  bool changes_resumed_ = false;
  std::deque<Step> steps_;  // begun and not finished
  std::vector<int32_t> drew_;
  std::vector<Sequence> slots_;
  std::vector<uint64_t> cells_;  // by page and position in it: the chain up to there
};

}  // namespace graft
