// How many rows of prompts a step may have beside sequences that decode, so that it is expected to
// end within the bound on their time per token. Used by the engine's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "step/step_plan.h"

namespace graft {

class PromptBudget {
 public:
  // Prompts go on with so many rows a step, whatever these take.
  static constexpr int32_t kRowsMin = 64;
  // Before it is known what a row takes.
  static constexpr int32_t kRowsFirst = 512;

  // Nanoseconds; 0: no bound.
  explicit PromptBudget(int64_t step_ns_max) : step_ns_max_(step_ns_max) {}

  // Learns from a step that took `step_ns` and waited for nothing. Few rows teach nothing, because
  // the time of a step that is launched kernel by kernel would be counted as theirs. Expensive rows
  // are remembered for some steps, because those of a long context are followed by more expensive
  // ones.
  void Learn(const StepPlan& plan, int64_t step_ns) {
    const auto num_sequences = static_cast<int64_t>(plan.sequences.size());
    const int64_t prompt_rows =
        static_cast<int64_t>(plan.tokens.size()) - num_sequences - plan.num_drafts;
    if (prompt_rows == 0) decode_ns_ = step_ns;
    if (prompt_rows < kRowsMin || step_ns <= decode_ns_) return;
    row_ns_ = std::max((step_ns - decode_ns_) / prompt_rows + 1, row_ns_ - row_ns_ / 8);
  }

  // For a step with sequences that decode.
  int32_t RowsMax() const {
    if (step_ns_max_ == 0) return std::numeric_limits<int32_t>::max();
    if (row_ns_ == 0) return kRowsFirst;
    const int64_t rows = (step_ns_max_ - decode_ns_) / row_ns_;
    return static_cast<int32_t>(std::clamp<int64_t>(rows, kRowsMin, 1 << 30));
  }

 private:
  const int64_t step_ns_max_;
  int64_t decode_ns_ = 0;  // what the last step without prompts took; 0: there was none
  int64_t row_ns_ = 0;     // what a row of a prompt takes; 0: not known
};

}  // namespace graft
