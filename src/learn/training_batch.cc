#include "learn/training_batch.h"

#include "base/check.h"

namespace graft {

TrainingBatch::TrainingBatch(std::span<const TrainingSequence> sequences, int32_t page_tokens) {
  int32_t last_adapter = -1;
  for (const TrainingSequence& sequence : sequences) {
    CHECK_GE(sequence.adapter, last_adapter) << "the adapters of a batch ascend";
    const int32_t first_row = num_rows();
    for (size_t i = 0; i < sequence.tokens.size(); ++i) {
      const auto position = static_cast<int32_t>(i);
      if (position % page_tokens == 0) pages.push_back(static_cast<int32_t>(pages.size()));
      tokens.push_back(sequence.tokens[i]);
      positions.push_back(position);
      row_page.push_back(pages.back());
      row_slot.push_back(position % page_tokens);
    }
    row_begin.push_back(num_rows());
    page_begin.push_back(static_cast<int32_t>(pages.size()));
    kv_tokens.push_back(static_cast<int32_t>(sequence.tokens.size()));
    if (sequence.adapter < 0) continue;
    if (sequence.adapter == last_adapter) {
      segments.back().row_end = num_rows();
    } else {
      segments.push_back({first_row, num_rows(), sequence.adapter});
    }
    last_adapter = sequence.adapter;
  }
}

}  // namespace graft
