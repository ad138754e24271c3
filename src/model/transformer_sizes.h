// What a Transformer is built for, and the bytes that it allocates for that: the very sizes of its
// buffers, so that they can be summed up before anything is taken. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/common/kv_layout.h"
#include "kernels/lora/lora.h"
#include "layers/served_types.h"
#include "model/config.h"
#include "model/forward_batch.h"
#include "tensor/device.h"

namespace graft {

struct TransformerLimits {
  int32_t step_tokens_max = 0;     // rows of one step
  int32_t logits_rows_max = 0;     // rows of logits at once
  int32_t sequences_max = 0;       // sequences of one step; 0: as many as rows
  int32_t context_tokens_max = 0;  // positions
  int32_t lora_rank_max = kLoraRankMax;
  bool lora_beside = true;  // false: LoRA never runs beside the products, to compare with
  bool has_ranks = false;   // it is one of several, for SizesOf: a Transformer knows itself

  int32_t num_sequences() const { return sequences_max == 0 ? step_tokens_max : sequences_max; }
};

// Bytes on the device, but for batch_on_host. LayerScratch says what they are; its `attention` is
// attention_scratch here, its `picked` logits_hidden.
struct TransformerSizes {
  int64_t hidden = 0, normed = 0, mlp_normed = 0, branch = 0, qkv = 0, squares = 0, attended = 0,
          gate_up = 0, activated = 0;
  int64_t lora_h = 0, lora_delta = 0, lora_words = 0;
  int64_t codes_room = 0;
  int64_t attention_scratch = 0;
  int64_t logits_rows = 0, logits_hidden = 0, logits_normed = 0, logits = 0;
  int64_t ropes = 0;
  int64_t batch = 0;          // of BatchUpload
  int64_t batch_on_host = 0;  // of BatchUpload, page-locked

  // What grows with the rows of a step.
  int64_t activations() const {
    return hidden + normed + mlp_normed + branch + qkv + squares + attended + gate_up + activated;
  }
  int64_t lora() const { return lora_h + lora_delta + lora_words; }
  int64_t all_logits() const { return logits_rows + logits_hidden + logits_normed + logits; }
  int64_t on_device() const {
    return activations() + lora() + codes_room + attention_scratch + all_logits() + ropes + batch;
  }
};

// With a pool of `layout`.
TransformerSizes SizesOf(const TransformerLimits& limits, const ModelConfig& config,
                         const ServedTypes& types, const KvLayout& layout, const Device& device);

// What each of several ranks writes at once for the others: rows of hidden states, or of its slice
// of the logits. `config` is the whole model's, or ShardConfig's.
int64_t PartFloatsOf(const TransformerLimits& limits, const ModelConfig& config, int32_t num_ranks);

// The numbers of a row in each sum that several ranks form in a step, in their order: of the
// embeddings, and two or three of each layer.
std::vector<int64_t> RankSumsOf(const ModelConfig& config);

// The limits of what it uploads.
ForwardBatchLimits BatchLimitsOf(const TransformerLimits& limits, const ModelConfig& config,
                                 const KvLayout& layout, const Device& device);

}  // namespace graft
