#include "learn/training_batch.h"

#include <algorithm>

#include "base/check.h"

namespace graft {
namespace {

// Gives rows up to `row_end` to the adapter, in the last segment if that is the adapter's.
void AddRows(int32_t adapter, int32_t row_begin, int32_t row_end,
             std::vector<LoraSegment>* segments) {
  if (adapter < 0) return;
  const bool goes_on = !segments->empty() && segments->back().adapter_slot == adapter &&
                       segments->back().row_end == row_begin;
  if (goes_on) {
    segments->back().row_end = row_end;
  } else {
    segments->push_back({row_begin, row_end, adapter});
  }
}

}  // namespace

TrainingBatch::TrainingBatch(std::span<const TrainingSequence> sequences, int32_t page_tokens) {
  int32_t last_adapter = -1;
  for (const TrainingSequence& sequence : sequences) {
    CHECK(sequence.adapter < 0 || sequence.adapter >= last_adapter)
        << "the adapters of a batch ascend";
    last_adapter = std::max(last_adapter, sequence.adapter);
    const int32_t first_row = num_rows();
    Append(sequence, page_tokens);
    AddRows(sequence.adapter, first_row, num_rows(), &segments);
    AddRows(sequence.document, first_row, num_rows(), &document_segments);
  }
}

void TrainingBatch::Append(const TrainingSequence& sequence, int32_t page_tokens) {
  const SequencePrompt& prompt = sequence.prompt;
  const int32_t first_row = num_rows();
  const int32_t first_page = num_pages();
  const int32_t before = sequence.num_before();
  const auto num_own = static_cast<int32_t>(sequence.tokens.size());
  const int32_t first_position = prompt.num_keys_values();
  const int32_t num_positions = first_position + sequence.num_rows();
  for (int32_t position = 0; position < num_positions; ++position) {
    if (position % page_tokens == 0) pages.push_back(num_pages());
    if (position < first_position) continue;
    const int32_t own = position - first_position - before;
    // Token 0 stands in for virtual embeddings.
    int32_t token = own >= 0 && own < num_own ? sequence.tokens[static_cast<size_t>(own)] : 0;
    if (token == kVirtualToken) {
      CHECK_GE(sequence.between, 0);
      embeddings.push_back({sequence.between, 0, 1, num_rows()});
      run_tokens_max = std::max(run_tokens_max, 1);
      token = 0;
    }
    tokens.push_back(token);
    positions.push_back(position);
    row_page.push_back(pages.back());
    row_slot.push_back(position % page_tokens);
  }
  row_begin.push_back(num_rows());
  page_begin.push_back(num_pages());
  kv_tokens.push_back(num_positions);
  prompts.push_back(prompt);
  run_tokens_max = std::max(run_tokens_max, prompt.num_tokens);
  if (prompt.num_tokens == 0) return;
  const bool is_embedding = prompt.kind == VirtualTokenKind::kEmbedding;
  const int32_t place = is_embedding ? first_row + (prompt.is_behind ? num_own : 0) : first_page;
  (is_embedding ? embeddings : keys_values)
      .push_back({prompt.adapter, 0, prompt.num_tokens, place});
}

}  // namespace graft
