// What the Gemmas share. Constants and pure functions, any thread.
#pragma once

#include <cmath>
#include <string_view>

#include "model/family.h"

namespace graft {

inline constexpr std::string_view kGemmaFields[] = {
    "attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar"};

inline constexpr NormNames kGemmaNorms = {.attention_output = "post_attention_layernorm",
                                          .mlp = "pre_feedforward_layernorm",
                                          .mlp_output = "post_feedforward_layernorm"};

// What the class takes for caps that are absent; 0: none.
struct GemmaCaps {
  double score_cap = 0.0;
  double logit_cap = 0.0;
};

// Sets what all Gemmas have: scaled embeddings, and norm weights that are stored less one.
inline void SetGemmaScales(ModelConfig& config) {
  config.scales_embeddings = true;
  config.norms_add_one = true;
}

// Norms, scales and caps of the layers of Gemma 2 and 3, and of what stands around them.
inline Status ReadGemmaLayers(const ConfigFields& fields, const GemmaCaps& caps,
                              ModelConfig& config) {
  // A field that is null is meant: no cap.
  const auto cap = [&](std::string_view name, double absent) {
    return fields.Number(name, 1e-3, 1e6, fields.Mentions(name) ? 0.0 : absent);
  };
  ASSIGN_OR_RETURN(const double score_cap, cap("attn_logit_softcapping", caps.score_cap));
  ASSIGN_OR_RETURN(const double logit_cap, cap("final_logit_softcapping", caps.logit_cap));
  ASSIGN_OR_RETURN(const double scalar, fields.Number("query_pre_attn_scalar", 1e-3, 1e6, 256.0));
  config.logit_cap = static_cast<float>(logit_cap);
  SetGemmaScales(config);
  for (LayerSpec& layer : config.layers) {
    layer.attention_scale = static_cast<float>(1.0 / std::sqrt(scalar));
    layer.score_cap = static_cast<float>(score_cap);
    layer.output_norms = true;
  }
  return OkStatus();
}

}  // namespace graft
