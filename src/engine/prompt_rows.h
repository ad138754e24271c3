// PromptRows: how many rows of prompts the next step may have, by the goal. For latency these are
// all that the step has room for or, beside sequences that decode, as many as are expected to keep
// the bound on a step's time (PromptBudget). For throughput the same bound, a longer one, holds for
// every step, and within it StepSize chooses. Engine thread only.
#pragma once

#include <cstdint>

#include "engine/prompt_budget.h"
#include "engine/sequences.h"
#include "engine/step_demand.h"
#include "engine/step_size.h"
#include "step/step_plan.h"

namespace graft {

class PromptRows {
 public:
  // Borrowed; its options have the goal and the bound.
  explicit PromptRows(const Sequences& sequences)
      : sequences_(sequences), budget_(sequences.options().step_ns_max) {}

  // For a plan in which `num_decodes` sequences have their rows already, and `rows_left` are left.
  int32_t Max(int32_t rows_left, int32_t num_decodes);
  // A step that took `step_ns` and waited for no adapter.
  void Learn(const StepPlan& plan, int64_t step_ns);
  // The sequence ended, with an answer or without.
  void LearnAnswer(const Sequence& sequence);

 private:
  bool is_for_throughput() const { return sequences_.options().goal == Goal::kThroughput; }
  void AddRunning();
  void AddWaiting();

  const Sequences& sequences_;
  PromptBudget budget_;
  StepSize size_;
  StepDemand demand_;  // reused, so that a step allocates nothing once warm
};

}  // namespace graft
