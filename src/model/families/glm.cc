// GLM-4 (9B of 2024) in HF's class: Llama with what glm_layers.h says.
#include "model/families/glm_layers.h"

namespace graft {

constinit const ModelFamily kGlmFamily = {
    .architecture = Architecture::kGlm,
    .name = "GlmForCausalLM",
    .model_type = "glm",
    .head_dim = 128,
    .rms_norm_epsilon = kGlmEpsilon,
    .rotary_factor = 0.5,
    .attention_bias = AttentionBias::kQkvUnlessOff,
    .may_rotate_in_part = true,
    .read_layers = ReadGlmLayers,
    .has_peft_default = false,
    .projections = kGlmProjections,
};

}  // namespace graft
