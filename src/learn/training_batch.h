// TrainingBatch: whole sequences as the rows of one forward and backward, those of one adapter side
// by side, so that each adapter has one segment. Plain data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "adapters/prompt_config.h"
#include "kernels/common/virtual_rows.h"
#include "kernels/lora/lora.h"

namespace graft {

// Virtual tokens of an adapter, and where a sequence has them.
struct SequencePrompt {
  int32_t adapter = -1;  // -1: none
  VirtualTokenKind kind = VirtualTokenKind::kEmbedding;
  int32_t num_tokens = 0;
  bool is_behind = false;  // behind the sequence's own tokens: embeddings of an encoder

  int32_t num_embeddings() const { return kind == VirtualTokenKind::kEmbedding ? num_tokens : 0; }
  int32_t num_keys_values() const { return num_tokens - num_embeddings(); }
};

struct TrainingSequence {
  std::span<const int32_t> tokens;
  int32_t adapter = -1;   // whose LoRA is on its rows; -1: none
  int32_t document = -1;  // whose LoRA is on them, too, and gets no gradient; -1: none
  SequencePrompt prompt = {};
  SequencePrompt mark = {};  // embeddings between a prompt in front and its own tokens

  // Rows before its own tokens.
  int32_t num_before() const {
    return prompt.is_behind ? 0 : prompt.num_embeddings() + mark.num_embeddings();
  }
  int32_t num_rows() const {
    return static_cast<int32_t>(tokens.size()) + prompt.num_embeddings() + mark.num_embeddings();
  }
};

struct TrainingBatch {
  // The sequences' adapters ascend, but for -1. Pages are handed out from 0 on.
  TrainingBatch(std::span<const TrainingSequence> sequences, int32_t page_tokens);

  int32_t num_rows() const { return static_cast<int32_t>(tokens.size()); }
  int32_t num_sequences() const { return static_cast<int32_t>(kv_tokens.size()); }
  int32_t num_pages() const { return static_cast<int32_t>(pages.size()); }

  // As BatchArrays has them.
  std::vector<int32_t> tokens, positions, row_page, row_slot;
  std::vector<int32_t> row_begin = {0}, page_begin = {0};
  std::vector<int32_t> pages, kv_tokens;
  std::vector<LoraSegment> segments;           // of what learns
  std::vector<LoraSegment> document_segments;  // of what does not
  std::vector<SequencePrompt> prompts;         // of each sequence
  std::vector<VirtualRun> embeddings;          // `place`: a row
  std::vector<VirtualRun> keys_values;         // `place`: of `pages`
  int32_t run_tokens_max = 0;                  // of both

 private:
  void Append(const TrainingSequence& sequence, int32_t page_tokens);
};

}  // namespace graft
