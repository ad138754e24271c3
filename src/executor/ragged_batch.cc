#include "executor/ragged_batch.h"

#include <algorithm>
#include <iterator>

namespace graft {
namespace {

// Adds rows to the last segment where they continue it.
void AddSegment(const LoraSegment& rows, std::vector<LoraSegment>* segments) {
  if (rows.adapter_slot == kNoAdapter || rows.row_begin == rows.row_end) return;
  const bool extends = !segments->empty() && segments->back().row_end == rows.row_begin &&
                       segments->back().adapter_slot == rows.adapter_slot;
  if (extends) {
    segments->back().row_end = rows.row_end;
  } else {
    segments->push_back(rows);
  }
}

}  // namespace

void RaggedBatch::Build(const StepPlan& plan) {
  for (auto* column :
       {&tokens_, &positions_, &row_page_, &row_slot_, &pages_, &kv_tokens_, &sample_rows_}) {
    column->clear();
  }
  row_begin_.assign(1, 0);
  page_begin_.assign(1, 0);
  segments_.clear();
  prompt_segments_.clear();
  virtual_embeddings_.clear();
  virtual_kv_.clear();
  num_given_ = 0;
  first_rows_.resize(plan.sequences.size());
  for (const bool has_prompt : {false, true}) {
    for (size_t i = 0; i < plan.sequences.size(); ++i) {
      if ((plan.sequences[i].num_prompt_rows > 0) != has_prompt) continue;
      first_rows_[i] = num_rows();
      num_given_ += has_prompt ? 1 : 0;
      Append(plan, plan.sequences[i]);
    }
  }
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const PlannedSequence& sequence = plan.sequences[i];
    if (!sequence.samples) continue;
    CHECK_GT(sequence.num_tokens, sequence.num_drafts) << "nothing to sample after";
    const int32_t row_end = first_rows_[i] + sequence.num_tokens;
    for (int32_t row = row_end - 1 - sequence.num_drafts; row < row_end; ++row) {
      sample_rows_.push_back(row);
    }
  }
}

BatchArrays RaggedBatch::arrays() const {
  BatchArrays arrays;
  arrays.tokens = tokens_;
  arrays.positions = positions_;
  arrays.row_page = row_page_;
  arrays.row_slot = row_slot_;
  arrays.row_begin = row_begin_;
  arrays.page_begin = page_begin_;
  arrays.pages = pages_;
  arrays.kv_tokens = kv_tokens_;
  arrays.num_given = num_given_;
  arrays.logits_rows = sample_rows_;
  arrays.lora_segments = segments_;
  arrays.lora_prompt_segments = prompt_segments_;
  arrays.virtual_embeddings = virtual_embeddings_;
  arrays.virtual_kv = virtual_kv_;
  return arrays;
}

// kNoAdapter for a row without.
int32_t RaggedBatch::AdapterOf(int32_t row) const {
  for (const std::vector<LoraSegment>* const segments : {&segments_, &prompt_segments_}) {
    const auto after = std::ranges::upper_bound(*segments, row, {}, &LoraSegment::row_begin);
    if (after == segments->begin()) continue;
    if (row < std::prev(after)->row_end) return std::prev(after)->adapter_slot;
  }
  return kNoAdapter;
}

std::span<const LoraSegment> RaggedBatch::HeadSegments(
    std::span<const int32_t> rows, const std::function<bool(int32_t)>& changes_head,
    int32_t rows_max) {
  head_segments_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    const int32_t slot = AdapterOf(rows[i]);
    if (slot == kNoAdapter || !changes_head(slot)) continue;
    const auto place = static_cast<int32_t>(i);
    const bool extends = !head_segments_.empty() && head_segments_.back().row_end == place &&
                         head_segments_.back().adapter_slot == slot &&
                         place - head_segments_.back().row_begin < rows_max;
    if (extends) {
      ++head_segments_.back().row_end;
    } else {
      head_segments_.push_back({place, place + 1, slot});
    }
  }
  return head_segments_;
}

// Virtual token i is at position i. The sequence's pages are about to be added.
void RaggedBatch::AddVirtualTokens(const PlannedSequence& sequence, int32_t row_begin) {
  const int32_t begin = sequence.position_begin;
  const auto run = [&](int32_t token_begin, int32_t token_end, int32_t place) {
    CHECK(sequence.adapter_slot != kNoAdapter && token_begin >= 0) << "virtual tokens of nobody";
    return VirtualRun{sequence.adapter_slot, token_begin, token_end, place};
  };
  if (sequence.num_virtual_rows > 0) {
    CHECK_LE(sequence.num_virtual_rows, sequence.num_tokens);
    virtual_embeddings_.push_back(run(begin, begin + sequence.num_virtual_rows, row_begin));
  }
  if (sequence.num_virtual_kv > 0) {
    virtual_kv_.push_back(
        run(begin - sequence.num_virtual_kv, begin, static_cast<int32_t>(pages_.size())));
  }
}

void RaggedBatch::Append(const StepPlan& plan, const PlannedSequence& sequence) {
  const int32_t kv_tokens = sequence.position_begin + sequence.num_tokens;
  CHECK_GE(sequence.token_begin, 0);
  CHECK_LE(static_cast<size_t>(sequence.token_begin + sequence.num_tokens), plan.tokens.size());
  CHECK_GE(sequence.page_begin, 0);
  CHECK_LE(static_cast<size_t>(sequence.page_begin + sequence.num_pages), plan.pages.size());
  CHECK_LE(kv_tokens, sequence.num_pages * page_tokens_) << "rows past the sequence's pages";

  const int32_t row_begin = num_rows();
  const int32_t* pages = plan.pages.data() + sequence.page_begin;
  for (int32_t i = 0; i < sequence.num_tokens; ++i) {
    const int32_t position = sequence.position_begin + i;
    // Any token will do where an adapter's embedding comes instead.
    tokens_.push_back(i < sequence.num_virtual_rows ? 0 : plan.tokens[sequence.token_begin + i]);
    positions_.push_back(position);
    row_page_.push_back(pages[position / page_tokens_]);
    row_slot_.push_back(position % page_tokens_);
  }
  const int32_t row_end = num_rows();
  row_begin_.push_back(row_end);
  AddVirtualTokens(sequence, row_begin);
  pages_.insert(pages_.end(), pages, pages + sequence.num_pages);
  page_begin_.push_back(static_cast<int32_t>(pages_.size()));
  kv_tokens_.push_back(kv_tokens);

  const bool is_prompt = sequence.num_prompt_rows > 0;
  CHECK_EQ(sequence.num_prompt_rows, is_prompt ? sequence.num_tokens : 0)
      << "rows of a prompt and drawn rows in one chunk";
  CHECK(sequence.num_base_rows >= 0 && sequence.num_base_rows <= sequence.num_tokens);
  AddSegment({row_begin + sequence.num_base_rows, row_end, sequence.adapter_slot},
             is_prompt ? &prompt_segments_ : &segments_);
}

}  // namespace graft
