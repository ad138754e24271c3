// What a model's layers are: the sizes that they share, and what each of them computes. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/gated_activation/gated_activation.h"
#include "layers/lora_targets.h"

namespace graft {

// The whole model's, or those of one of several ranks: then its heads, its part of the MLP.
struct ModelShape {
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
  int32_t intermediate_size = 0;
  int32_t num_layers = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;       // divides num_heads
  int32_t head_dim = 0;           // even
  int32_t rotary_dim = 0;         // the first dimensions of a head, which RoPE turns; 0: all
  bool rope_interleaved = false;  // RopeArgs::interleaved
  float rms_norm_epsilon = 1e-6f;
  float hidden_scale = 1.0f;  // of what the first layer reads, virtual tokens with it
  float logit_scale = 1.0f;   // before the cap
  float logit_cap = 0.0f;     // 0: none; c: logits x become c tanh(x / c)

  std::span<const TargetSpec> lora_targets = kDenseTargets;  // of each layer

  int64_t hidden() const { return hidden_size; }
  int64_t intermediate() const { return intermediate_size; }
  int64_t q_size() const { return int64_t{num_heads} * head_dim; }
  int64_t kv_size() const { return int64_t{num_kv_heads} * head_dim; }
  int64_t qkv_size() const { return q_size() + 2 * kv_size(); }
  int32_t num_rotary() const { return rotary_dim > 0 ? rotary_dim : head_dim; }

  int32_t num_lora_targets() const { return static_cast<int32_t>(lora_targets.size()); }
  // How many matrices (A and B) an adapter's table has, of all layers.
  int64_t num_lora_matrices() const { return int64_t{num_layers} * num_lora_targets(); }
  // The target's place in such a table.
  int64_t lora_matrix(int32_t layer, LoraModule module) const {
    return int64_t{layer} * num_lora_targets() + static_cast<int64_t>(module);
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
struct LayerSpec {
  Mixer mixer = Mixer::kAttention;
  int32_t window = 0;                 // sliding window in tokens, 0: full attention
  int32_t rope = 0;                   // which of the model's ropes turns its queries and keys
  float attention_scale = 1.0f;       // of q k^T
  float score_cap = 0.0f;             // AttentionArgs::score_cap
  bool qk_norm = false;               // RMSNorm over each head of q and k, before RoPE
  bool qk_norm_across_heads = false;  // where qk_norm: one over all heads of q, one over all of k
  bool input_norms = true;            // RMSNorm of what attention and MLP read
  bool output_norms = false;          // RMSNorm of what attention and MLP return
  Activation activation = Activation::kSilu;
  // What multiplies all that attention and MLP add, bias and LoRA with it. Not beside output norms.
  float residual_scale = 1.0f;

  // Whether what attention and MLP return may pass through something before it is added.
  bool has_branch() const { return output_norms || residual_scale != 1.0f; }
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
