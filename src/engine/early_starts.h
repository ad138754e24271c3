// EarlyStarts decides whether a request begins while its adapter still arrives on the device. A
// step with such a request waits for the adapter's layers, or the CPU computes for them. With
// `--cold-start auto` the request begins if all requests together then wait less (BeginsNow). This
// class keeps the sums of the step so far, on which that choice depends. Engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/cold_start_choice.h"
#include "engine/sequences.h"
#include "engine/step_room.h"

namespace graft {

class EarlyStarts {
 public:
  // All are borrowed. `costs` are those of the steps so far, `room` has the rows of the plan.
  EarlyStarts(Sequences& sequences, const ColdStartCosts& costs, const StepRoom& room)
      : sequences_(sequences), costs_(costs), room_(room) {}

  // A plan begins, and nothing is counted.
  void Begin() { is_counted_ = false; }
  // Before the plan's first request with an adapter is looked at, and every further one: counts the
  // step so far, once in a plan.
  void Count();
  // One more sequence has rows in the step.
  void NotePlanned() { ++num_planned_; }
  // Whether the request begins now. Its adapter arrives, and it could run otherwise.
  bool BeginsNow(const Sequence& sequence);
  // How long the planned rows stall because their adapters still arrive.
  ArrivalStall StallOfPlanned();

 private:
  bool IsNamed(int32_t content) const;

  Sequences& sequences_;
  const ColdStartCosts& costs_;
  const StepRoom& room_;
  bool is_counted_ = false;        // the next two are right
  int32_t num_planned_ = 0;        // sequences with rows in the step
  ArrivalStall stall_;             // the step's
  std::vector<int32_t> contents_;  // scratch
};

}  // namespace graft
