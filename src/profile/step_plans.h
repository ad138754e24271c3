// Plans for an executor that no engine drives: what each sequence computes, and nothing that its
// pages held before matters. Pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "step/mask_source.h"
#include "step/step_plan.h"

namespace graft {

// A sequence that computes `rows` from `position` on; a prompt begins at 0.
struct RowsOfSequence {
  AdapterSlot adapter = kNoAdapter;
  int32_t rows = 1;
  int32_t position = 0;
  int32_t drafts = 0;   // the last so many rows
  bool masked = false;  // its draws
};

// All draw a token. Sequences are in the order of their adapters; pages are counted from 0.
StepPlan PlanRows(const std::vector<RowsOfSequence>& sequences, int32_t page_tokens,
                  int32_t vocab_size, uint64_t seed);

// Adapters of sequences: each of so many for as many of them, or one more; ascending.
std::vector<AdapterSlot> ShareOut(int32_t num_adapters, int32_t num_sequences);

// A source of masks that allow any token with probability one half, the same at every step. It
// copies them, so that a step costs what any source's masks cost behind their making.
std::unique_ptr<MaskSource> MakeRandomMasks(int32_t vocab_size, uint64_t seed);

}  // namespace graft
