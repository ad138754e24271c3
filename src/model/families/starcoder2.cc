// StarCoder 2: Llama's attention with biases and a window, LayerNorm, an MLP without a gate.
#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/families/plain_mlp.h"

namespace graft {
namespace {

constexpr std::array<TargetSpec, 6> kStarCoder2Targets = PlainMlpTargets("self_attn.", "mlp.");
constexpr std::array<StoredProjection, 6> kStarCoder2Projections = {{{"q_proj", LoraModule::kQ},
                                                                     {"k_proj", LoraModule::kK},
                                                                     {"v_proj", LoraModule::kV},
                                                                     {"o_proj", LoraModule::kO},
                                                                     {"c_fc", kPlainUp},
                                                                     {"c_proj", kPlainDown}}};

Status ReadStarCoder2(const ConfigFields& fields, ModelConfig& config) {
  SetPlainMlp(config);
  ASSIGN_OR_RETURN(const bool has_bias, fields.Bool("use_bias", true));
  config.qkv_bias = config.o_bias = config.mlp_bias = has_bias;
  ASSIGN_OR_RETURN(const int32_t window, fields.Int("sliding_window", 1, kConfigContextMax, 0));
  RETURN_IF_ERROR(SetWindowOfAll(fields, window, config));
  RETURN_IF_ERROR(ReadOneRope(fields, config));
  return ReadPlainActivation(fields, "hidden_act", "gelu_pytorch_tanh", config);
}

}  // namespace

constinit const ModelFamily kStarCoder2Family = {
    .architecture = Architecture::kStarCoder2,
    .name = "Starcoder2ForCausalLM",
    .model_type = "starcoder2",
    .rms_norm_epsilon = 1e-5,
    .tied_embeddings = true,
    .dimensions = {.norm_epsilon = "norm_epsilon"},
    .attention_bias = AttentionBias::kAsLayers,
    .read_layers = ReadStarCoder2,
    .lora_targets = kStarCoder2Targets,
    .has_peft_default = false,
    .projections = kStarCoder2Projections,
};

}  // namespace graft
