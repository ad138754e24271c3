// GLM-4-0414 (9B, 32B): GLM-4 with norms behind attention and MLP, too.
#include "model/families/glm_layers.h"

namespace graft {
namespace {

Status ReadGlm4(const ConfigFields& fields, ModelConfig& config) {
  for (LayerSpec& layer : config.layers) layer.output_norms = true;
  return ReadGlmLayers(fields, config);
}

}  // namespace

constinit const ModelFamily kGlm4Family = {
    .architecture = Architecture::kGlm4,
    .name = "Glm4ForCausalLM",
    .model_type = "glm4",
    .head_dim = 128,
    .rms_norm_epsilon = kGlmEpsilon,
    .rotary_factor = 0.5,
    .attention_bias = AttentionBias::kQkvUnlessOff,
    .may_rotate_in_part = true,
    .read_layers = ReadGlm4,
    .has_peft_default = false,
    .projections = kGlmProjections,
    .norms = {.attention_output = "post_self_attn_layernorm", .mlp_output = "post_mlp_layernorm"},
};

}  // namespace graft
