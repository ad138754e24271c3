// What OLMo 2 and 3 share. Constants and pure functions, any thread.
#pragma once

#include "model/family.h"

namespace graft {

inline constexpr NormNames kOlmoNorms = {.attention = "",
                                         .attention_output = "post_attention_layernorm",
                                         .mlp = "",
                                         .mlp_output = "post_feedforward_layernorm",
                                         .q = "self_attn.q_norm",
                                         .k = "self_attn.k_norm"};

// Norms stand behind attention and MLP alone, and queries and keys are normed over all heads.
inline void SetOlmoNorms(ModelConfig& config) {
  for (LayerSpec& layer : config.layers) {
    layer.input_norms = false;
    layer.output_norms = true;
    layer.qk_norm_across_heads = true;
  }
}

}  // namespace graft
