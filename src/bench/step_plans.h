// Plans for an executor that no engine drives: what each sequence computes, and nothing that its
// pages held before matters. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "step/step_plan.h"

namespace graft {

// A sequence that computes `rows` from `position` on; a prompt begins at 0.
struct RowsOfSequence {
  AdapterSlot adapter = kNoAdapter;
  int32_t rows = 1;
  int32_t position = 0;
};

// All draw a token. Sequences are in the order of their adapters; pages are counted from 0.
StepPlan PlanRows(const std::vector<RowsOfSequence>& sequences, int32_t page_tokens,
                  int32_t vocab_size, uint64_t seed);

}  // namespace graft
