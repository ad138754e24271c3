// When the step that runs is about to end, judging by those before it. Used by the engine's thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "step/step_plan.h"

namespace graft {

class StepDuration {
 public:
  // Rows beyond one for each sequence cost less each the more there are. Learns the least that such
  // rows cost in recent steps, a value that grows slowly. So a step is more likely predicted too
  // short than too long, and the next one begins early.
  void Learn(const StepPlan& plan, int64_t step_ns) {
    if (plan.num_drafts > 0) return;  // nothing is begun ahead of such steps
    const int64_t extra_rows = ExtraRows(plan);
    if (extra_rows == 0) {
      decode_ns_ = step_ns;
    } else if (decode_ns_ >= 0 && step_ns > decode_ns_) {
      // A step no longer than one without such rows teaches nothing: that one had longer contexts.
      const int64_t row_ns = std::max<int64_t>(1, (step_ns - decode_ns_) / extra_rows);
      extra_row_ns_ =
          extra_row_ns_ < 0 ? row_ns : std::min(row_ns, extra_row_ns_ + extra_row_ns_ / 8 + 1000);
    }
  }

  // Nanoseconds; -1: none like it was seen.
  int64_t Expect(const StepPlan& plan) const {
    const int64_t extra_rows = ExtraRows(plan);
    if (plan.num_drafts > 0) return -1;
    if (decode_ns_ < 0 || (extra_rows > 0 && extra_row_ns_ < 0)) return -1;
    return decode_ns_ + extra_rows * extra_row_ns_;
  }

 private:
  static int64_t ExtraRows(const StepPlan& plan) {
    return static_cast<int64_t>(plan.tokens.size()) - static_cast<int64_t>(plan.sequences.size());
  }

  int64_t decode_ns_ = -1;     // what the last step of one row for each sequence took
  int64_t extra_row_ns_ = -1;  // what a row more takes
};

}  // namespace graft
