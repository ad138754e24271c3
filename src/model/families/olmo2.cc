// OLMo 2: attention and MLP read the residual stream as it is, and what they return is normed.
// Queries and keys are normed over the columns of all heads.
#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/family.h"

namespace graft {
namespace {

Status ReadOlmo2(const ConfigFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseWindow(fields, config));
  RETURN_IF_ERROR(SetWindowOfAll(fields, 0, config));
  RETURN_IF_ERROR(ReadOneRope(fields, config));
  for (LayerSpec& layer : config.layers) {
    layer.input_norms = false;
    layer.output_norms = true;
    layer.qk_norm_across_heads = true;
  }
  return CheckSilu(fields);
}

}  // namespace

constinit const ModelFamily kOlmo2Family = {
    .architecture = Architecture::kOlmo2,
    .name = "Olmo2ForCausalLM",
    .model_type = "olmo2",
    .rms_norm_epsilon = 1e-5,
    .norms_qk = true,
    .read_layers = ReadOlmo2,
    .has_peft_default = false,
    .norms = {.attention = "",
              .attention_output = "post_attention_layernorm",
              .mlp = "",
              .mlp_output = "post_feedforward_layernorm",
              .q = "self_attn.q_norm",
              .k = "self_attn.k_norm"},
};

}  // namespace graft
