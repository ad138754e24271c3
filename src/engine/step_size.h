// StepSize: how many rows of prompts a step has for the goal throughput. It chooses the number by
// which the sequences of a StepDemand are predicted to end soonest on average, if all steps until
// the prompts have ended have as many; docs/inside/engine.md has the model. What steps take is
// learned from those of late. There is no clock in it, and nothing of one machine. Engine thread
// only.
#pragma once

#include <cstdint>

#include "engine/cold_start_choice.h"
#include "engine/step_curve.h"
#include "engine/step_demand.h"
#include "step/step_plan.h"

namespace graft {

class StepSize {
 public:
  // Prompts go on with so many rows in any case, and fewer teach nothing.
  static constexpr int32_t kRowsMin = 64;
  // Before anything is known. The first steps then double their rows: none has more than twice as
  // many as the largest before it.
  static constexpr int32_t kRowsFirst = 512;

  // A step that took `step_ns` and waited for no adapter.
  void Learn(const StepPlan& plan, int64_t step_ns);
  // An answer ended after so many tokens.
  void LearnAnswer(int32_t num_tokens);
  // How many tokens a sequence is expected to draw that may draw so many: as many as answers of
  // late had, whatever it has drawn.
  double TokensOf(int32_t tokens_left) const;

  // The rows that prompts may have in the next step, `rows_max` at most. If sizes are as good as
  // each other to a thousandth, the smallest of them is taken.
  int32_t RowsFor(const StepDemand& demand, int32_t rows_max) const;
  // The prediction, in nanoseconds from now on, on average over all of the demand. At least a
  // prompt is in it.
  double MeanEndNs(const StepDemand& demand, double num_rows) const;

 private:
  // Steps of so many rows of prompts until all prompts have ended, and steps without any then,
  // without what rows of sequences that decode take of them.
  struct Course {
    double steps = 0.0;
    double full_ns = 0.0;  // all but the last one
    double last_ns = 0.0;
    double after_ns = 0.0;

    // When so many steps have ended.
    double At(double num) const;
  };
  Course CourseOf(const StepDemand& demand, double num_rows) const;

  StepCost decodes_;  // steps without prompts
  StepCurve prompts_;
  double answers_ = 0.0;        // older ones counting less
  double answer_tokens_ = 0.0;  // of these
};

}  // namespace graft
