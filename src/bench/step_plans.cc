#include "bench/step_plans.h"

#include "base/random.h"

namespace graft {

StepPlan PlanRows(const std::vector<RowsOfSequence>& sequences, int32_t page_tokens,
                  int32_t vocab_size, uint64_t seed) {
  Random random(seed);
  StepPlan plan;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const RowsOfSequence& one = sequences[i];
    PlannedSequence sequence;
    sequence.sequence_slot = static_cast<int32_t>(i);
    sequence.adapter_slot = one.adapter;
    sequence.token_begin = static_cast<int32_t>(plan.tokens.size());
    sequence.num_tokens = one.rows;
    sequence.num_prompt_rows = one.position == 0 ? one.rows : 0;
    sequence.position_begin = one.position;
    sequence.page_begin = static_cast<int32_t>(plan.pages.size());
    sequence.num_pages = (one.position + one.rows + page_tokens - 1) / page_tokens;
    sequence.samples = true;
    for (int32_t row = 0; row < one.rows; ++row) {
      plan.tokens.push_back(static_cast<int32_t>(random.Below(static_cast<uint64_t>(vocab_size))));
    }
    for (int32_t page = 0; page < sequence.num_pages; ++page) {
      plan.pages.push_back(static_cast<int32_t>(plan.pages.size()));
    }
    plan.sequences.push_back(sequence);
    plan.starts.push_back({sequence.sequence_slot, {}, {0}, {}});
  }
  return plan;
}

}  // namespace graft
