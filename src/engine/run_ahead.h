// Plans the step after the one that runs, so that the device need not wait until the host has read
// a step's tokens. Decoding nearly always goes on with the same sequences. Engine thread only.
#pragma once

#include <span>
#include <vector>

#include "engine/admission_walk.h"
#include "engine/draft_planner.h"
#include "engine/sequences.h"
#include "step/step_plan.h"

namespace graft {

class RunAhead {
 public:
  // All are borrowed.
  RunAhead(Sequences& sequences, const AdmissionWalk& walk, DraftPlanner& drafts)
      : sequences_(sequences), walk_(walk), drafts_(drafts) {}

  // While `running` runs, with the rows of `planned`: the same plan with a row more for each, if
  // that is sure whatever is drawn (StepPlan::ahead); else null. The caller must begin it.
  const StepPlan* Plan(const StepPlan& running, const std::vector<Sequence*>& planned);
  // The plan's turn has come: it takes the place, and later the memory, of the one that has run.
  void TakeOver(StepPlan** plan, std::vector<Sequence*>* planned);

 private:
  bool CanPlan(const StepPlan& running, std::span<Sequence* const> planned) const;

  Sequences& sequences_;
  const AdmissionWalk& walk_;
  DraftPlanner& drafts_;
  StepPlan first_;
  StepPlan* plan_ =
      &first_;  // takes turns with the scheduler's: an executor knows a plan by its place
};

}  // namespace graft
