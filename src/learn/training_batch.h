// TrainingBatch: whole sequences as the rows of one forward and backward, those of one adapter side
// by side, so that each adapter has one segment. Plain data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/lora/lora.h"

namespace graft {

struct TrainingSequence {
  std::span<const int32_t> tokens;
  int32_t adapter = -1;  // -1: the base alone
};

struct TrainingBatch {
  // The sequences' adapters ascend. Pages are handed out from 0 on.
  TrainingBatch(std::span<const TrainingSequence> sequences, int32_t page_tokens);

  int32_t num_rows() const { return static_cast<int32_t>(tokens.size()); }
  int32_t num_sequences() const { return static_cast<int32_t>(kv_tokens.size()); }

  // As BatchArrays has them.
  std::vector<int32_t> tokens, positions, row_page, row_slot;
  std::vector<int32_t> row_begin = {0}, page_begin = {0};
  std::vector<int32_t> pages, kv_tokens;
  std::vector<LoraSegment> segments;
};

}  // namespace graft
