// RaggedBatch: a StepPlan as the arrays that the kernels read: one row per token, ranges per
// sequence, and one LoRA segment per run of rows of one adapter (Punica, section 4). It is built
// once per step and used by every layer. Sequences with prompt rows come last, because a GPU may
// have another attention kernel for them. So the drawn rows, those of tokens that the model
// sampled, are adjacent, too. Within each group the order is the plan's. Reused from step to step.
// Engine thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/forward_batch.h"
#include "step/step_plan.h"

namespace graft {

class RaggedBatch {
 public:
  explicit RaggedBatch(int32_t page_tokens) : page_tokens_(page_tokens) {}

  // Replaces the contents. CHECKs that the plan's ranges lie inside its arrays.
  void Build(const StepPlan& plan);

  int32_t num_rows() const { return static_cast<int32_t>(positions_.size()); }

  const std::vector<int32_t>& tokens() const { return tokens_; }        // [num_rows]
  const std::vector<int32_t>& positions() const { return positions_; }  // [num_rows]
  const std::vector<int32_t>& row_page() const { return row_page_; }  // [num_rows] page written to
  const std::vector<int32_t>& row_slot() const { return row_slot_; }  // [num_rows] place in it
  const std::vector<int32_t>& row_begin() const { return row_begin_; }  // [num_sequences + 1]
  const std::vector<int32_t>& pages() const { return pages_; }
  const std::vector<int32_t>& page_begin() const { return page_begin_; }  // [num_sequences + 1]
  const std::vector<int32_t>& kv_tokens() const { return kv_tokens_; }    // [num_sequences]
  // All arrays, those behind this function too; they are valid until the next Build.
  BatchArrays arrays() const;
  // Drawn rows with an adapter, and prompt rows with one: as BatchArrays has them.
  const std::vector<LoraSegment>& segments() const { return segments_; }
  const std::vector<LoraSegment>& prompt_segments() const { return prompt_segments_; }
  // BatchArrays::head_segments of logits of these rows: in runs of one adapter for which
  // `changes_head` holds, of up to `rows_max` rows. Valid until the next call.
  std::span<const LoraSegment> HeadSegments(std::span<const int32_t> rows,
                                            const std::function<bool(int32_t)>& changes_head,
                                            int32_t rows_max);
  // As BatchArrays has them.
  const std::vector<VirtualRun>& virtual_embeddings() const { return virtual_embeddings_; }
  const std::vector<VirtualRun>& virtual_kv() const { return virtual_kv_; }
  // The rows that draws follow, by sequence that samples, in the plan's order: its last row that is
  // no draft, and then those of its drafts.
  const std::vector<int32_t>& sample_rows() const { return sample_rows_; }
  // The row at which the plan's sequence begins.
  int32_t first_row(size_t sequence_idx) const { return first_rows_[sequence_idx]; }

 private:
  void Append(const StepPlan& plan, const PlannedSequence& sequence);

  void AddVirtualTokens(const PlannedSequence& sequence, int32_t row_begin);

  const int32_t page_tokens_;
  std::vector<int32_t> tokens_, positions_, row_page_, row_slot_, row_begin_, pages_, page_begin_,
      kv_tokens_, sample_rows_, first_rows_;
  int32_t AdapterOf(int32_t row) const;

  std::vector<LoraSegment> segments_, prompt_segments_, head_segments_;
  std::vector<VirtualRun> virtual_embeddings_, virtual_kv_;
  int32_t num_given_ = 0;
};

}  // namespace graft
