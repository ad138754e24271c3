// TrainingBatch: whole sequences as the rows of one forward and backward. Those of an adapter lie
// side by side, so that each adapter has one segment. Plain data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "adapters/prompt_config.h"
#include "kernels/common/virtual_rows.h"
#include "kernels/lora/lora.h"

namespace graft {

// Virtual tokens of an adapter, and their place in a sequence.
struct SequencePrompt {
  int32_t adapter = -1;  // -1: none
  VirtualTokenKind kind = VirtualTokenKind::kEmbedding;
  int32_t num_tokens = 0;
  bool is_behind = false;  // embeddings of an encoder, behind the sequence's own tokens

  int32_t num_embeddings() const { return kind == VirtualTokenKind::kEmbedding ? num_tokens : 0; }
  int32_t num_keys_values() const { return num_tokens - num_embeddings(); }
};

// Among a sequence's tokens: the one virtual embedding of TrainingSequence::between.
inline constexpr int32_t kVirtualToken = -1;

struct TrainingSequence {
  std::span<const int32_t> tokens;
  int32_t adapter = -1;   // its LoRA is on the rows; -1: none
  int32_t document = -1;  // its LoRA is on them, too, without a gradient; -1: none
  SequencePrompt prompt = {};
  int32_t between = -1;  // the adapter that stands where the tokens are kVirtualToken; -1: none do

  // Rows before its own tokens.
  int32_t num_before() const { return prompt.is_behind ? 0 : prompt.num_embeddings(); }
  int32_t num_rows() const { return static_cast<int32_t>(tokens.size()) + prompt.num_embeddings(); }
};

struct TrainingBatch {
  // The sequences' adapters must ascend, apart from -1. Pages are handed out from 0 on.
  TrainingBatch(std::span<const TrainingSequence> sequences, int32_t page_tokens);

  int32_t num_rows() const { return static_cast<int32_t>(tokens.size()); }
  int32_t num_sequences() const { return static_cast<int32_t>(kv_tokens.size()); }
  int32_t num_pages() const { return static_cast<int32_t>(pages.size()); }

  // As BatchArrays has them.
  std::vector<int32_t> tokens, positions, row_page, row_slot;
  std::vector<int32_t> row_begin = {0}, page_begin = {0};
  std::vector<int32_t> pages, kv_tokens;
  std::vector<LoraSegment> segments;           // of adapters that learn
  std::vector<LoraSegment> document_segments;  // of frozen adapters
  std::vector<SequencePrompt> prompts;         // of each sequence
  std::vector<VirtualRun> embeddings;          // `place` is a row
  std::vector<VirtualRun> keys_values;         // `place` is an index into pages
  int32_t run_tokens_max = 0;                  // in either list

 private:
  void Append(const TrainingSequence& sequence, int32_t page_tokens);
};

}  // namespace graft
