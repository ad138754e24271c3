// Granite, dense: Llama with four multipliers: of embeddings, of scores, of what attention and MLP
// add to the residual stream, and one by which logits are divided.
#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/family.h"

namespace graft {
namespace {

constexpr std::string_view kGraniteFields[] = {"embedding_multiplier", "attention_multiplier",
                                               "residual_multiplier", "logits_scaling"};

Status ReadGranite(const ConfigFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseWindow(fields, config));
  RETURN_IF_ERROR(SetWindowOfAll(fields, 0, config));
  RETURN_IF_ERROR(ReadOneRope(fields, config));
  RETURN_IF_ERROR(CheckSilu(fields));
  const auto multiplier = [&](std::string_view name) {
    return fields.Number(name, 1e-6, 1e6, 1.0);
  };
  ASSIGN_OR_RETURN(const double of_embeddings, multiplier("embedding_multiplier"));
  ASSIGN_OR_RETURN(const double of_scores, multiplier("attention_multiplier"));
  ASSIGN_OR_RETURN(const double of_residual, multiplier("residual_multiplier"));
  ASSIGN_OR_RETURN(const double of_logits, multiplier("logits_scaling"));
  config.hidden_scale = static_cast<float>(of_embeddings);
  config.logit_scale = static_cast<float>(1.0 / of_logits);
  for (LayerSpec& layer : config.layers) {
    layer.attention_scale = static_cast<float>(of_scores);
    layer.residual_scale = static_cast<float>(of_residual);
  }
  return OkStatus();
}

}  // namespace

constinit const ModelFamily kGraniteFamily = {
    .architecture = Architecture::kGranite,
    .name = "GraniteForCausalLM",
    .model_type = "granite",
    .may_have_mlp_bias = true,
    .own_fields = kGraniteFields,
    .read_layers = ReadGranite,
    .has_peft_default = false,
};

}  // namespace graft
