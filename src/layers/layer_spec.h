// What a model's layers are: the sizes that they share, and what each of them computes. Plain data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/gated_activation/gated_activation.h"
#include "layers/lora_targets.h"

namespace graft {

// What norms of hidden states do. LayerNorm has a bias, which lies behind its weights in one
// buffer.
enum class NormKind : uint8_t { kRms, kLayer };

// The whole model's, or those of one of several ranks: then its heads, its part of the MLP.
struct ModelShape {
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
  int32_t intermediate_size = 0;
  int32_t num_layers = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;  // divides num_heads
  // Heads of queries and keys of the whole model, of which one of several ranks has the above.
  int32_t whole_heads = 0;
  int32_t whole_kv_heads = 0;
  int32_t head_dim = 0;            // even
  int32_t rotary_dim = 0;          // the first dimensions of a head, which RoPE turns; 0: all
  bool rope_interleaved = false;   // RopeArgs::interleaved
  NormKind norm = NormKind::kRms;  // of hidden states; heads of q and k have RMSNorm
  float rms_norm_epsilon = 1e-6f;  // of all norms, whatever kind they are
  // The MLP has a gate beside up. Without one it is down(activation(up(x))).
  bool gated_mlp = true;
  float hidden_scale = 1.0f;  // of what the first layer reads, virtual tokens with it
  float logit_scale = 1.0f;   // before the cap
  float logit_cap = 0.0f;     // 0: none; c: logits x become c tanh(x / c)
  // Rows of lm_head that each of several ranks has at most; 0: there is one, which has vocab_size.
  int32_t head_words = 0;

  std::span<const TargetSpec> lora_targets = kDenseTargets;  // of each layer

  int64_t hidden() const { return hidden_size; }
  int64_t intermediate() const { return intermediate_size; }
  int64_t gate_up_size() const { return (gated_mlp ? 2 : 1) * intermediate(); }
  int64_t norm_size() const { return (norm == NormKind::kLayer ? 2 : 1) * hidden(); }
  int64_t q_size() const { return int64_t{num_heads} * head_dim; }
  int64_t kv_size() const { return int64_t{num_kv_heads} * head_dim; }
  int64_t qkv_size() const { return q_size() + 2 * kv_size(); }
  int32_t num_rotary() const { return rotary_dim > 0 ? rotary_dim : head_dim; }

  int32_t num_lora_targets() const { return static_cast<int32_t>(lora_targets.size()); }
  // How many matrices (A and B) an adapter's table has, of all layers and the head.
  int64_t num_lora_matrices() const { return num_layer_matrices() + kHeadBlocksMax; }
  // Those of the layers, which stand in front of the head's and are what learning knows of.
  int64_t num_layer_matrices() const { return int64_t{num_layers} * num_lora_targets(); }
  // The target's place in such a table. The head's blocks are those of layer num_layers.
  int64_t lora_matrix(int32_t layer, LoraModule module) const {
    return int64_t{layer} * num_lora_targets() + static_cast<int64_t>(module);
  }
  // A's and B's columns of all targets before that one, layer by layer: times its rank where the
  // target's numbers begin among an adapter's that learns, which has A and then B of each.
  int64_t LoraColumnsBefore(int32_t layer, LoraModule module) const;

  // The first block of the head.
  int64_t head_matrix() const { return num_layer_matrices(); }
  bool is_head(int32_t layer) const { return layer == num_layers; }
  // Words of each block but the last: the same for all ranks, on borders that suit kernels. Blocks
  // without words are there and empty.
  int64_t head_block_words() const {
    constexpr int64_t kBorder = 64;
    return (num_head_words() + kBorder * kHeadBlocksMax - 1) / (kBorder * kHeadBlocksMax) * kBorder;
  }
  int64_t num_head_words() const { return head_words > 0 ? head_words : vocab_size; }
  int64_t head_block_size(LoraModule block) const {
    const int64_t begin = static_cast<int64_t>(block) * head_block_words();
    return std::clamp<int64_t>(num_head_words() - begin, 0, head_block_words());
  }
  // Those that have words.
  std::span<const LoraModule> head_blocks() const {
    const int64_t words = head_block_words();
    const int64_t count = words == 0 ? 0 : (num_head_words() + words - 1) / words;
    return std::span(kLoraTargetNumbers).first(static_cast<size_t>(count));
  }
  const TargetSpec& lora_target(LoraModule module) const {
    return lora_targets[static_cast<size_t>(module)];
  }
  std::span<const LoraModule> lora_modules() const {
    return std::span(kLoraTargetNumbers).first(lora_targets.size());
  }
};

// What mixes the tokens of a sequence in a layer.
enum class Mixer : uint8_t { kAttention };

// What one layer computes, whatever the architecture is called:
//   x += scale * [output norm](attention([norm](x)))
//   x += scale * [output norm](mlp([norm](x)))
// or, in parallel, x += attention(norm(x)) + mlp(norm(x)) of one x.
struct LayerSpec {
  Mixer mixer = Mixer::kAttention;
  int32_t window = 0;                 // sliding window in tokens, 0: full attention
  int32_t rope = 0;                   // which of the model's ropes turns its queries and keys
  float attention_scale = 1.0f;       // of q k^T
  float score_cap = 0.0f;             // AttentionArgs::score_cap
  bool qk_norm = false;               // RMSNorm over each head of q and k, before RoPE
  bool qk_norm_across_heads = false;  // where qk_norm: one over all heads of q, one over all of k
  bool input_norms = true;            // norm of what attention and MLP read
  bool output_norms = false;          // norm of what attention and MLP return
  bool parallel = false;              // without output norms and scale
  bool shares_norm = false;           // where parallel: the MLP reads what attention reads
  Activation activation = Activation::kSilu;
  // What multiplies all that attention and MLP add, bias and LoRA with it. Not beside output norms.
  float residual_scale = 1.0f;

  // Whether what attention and MLP return may pass through something before it is added.
  bool has_branch() const { return output_norms || residual_scale != 1.0f; }
  // Whether it lies in LayerScratch::branch before: one rank's product scales what it adds itself.
  bool writes_branch(bool has_ranks) const {
    return output_norms || (has_ranks && residual_scale != 1.0f);
  }
  // Whether ranks have parts of what a norm of queries and of keys goes over. Then they exchange
  // these parts' sums of squares, two for each row.
  bool norms_among_ranks(bool has_ranks) const {
    return has_ranks && qk_norm && qk_norm_across_heads;
  }
  // Whether the MLP reads another norm's result than attention, of the same x.
  bool has_second_norm() const { return parallel && !shares_norm; }
  bool operator==(const LayerSpec&) const = default;
};

// How many of the layers keep keys and values, which is how many a KvLayout has; the number of
// those before a layer is its place there.
inline int32_t NumKvLayers(std::span<const LayerSpec> layers) {
  int32_t count = 0;
  for (const LayerSpec& layer : layers) count += layer.mixer == Mixer::kAttention ? 1 : 0;
  return count;
}

}  // namespace graft
