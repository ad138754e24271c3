// Phi-1, 1.5 and 2: attention and MLP read one norm of one x, heads rotate in part, biases
// everywhere, the head's too. LayerNorm, an MLP without a gate.
#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/families/plain_mlp.h"

namespace graft {
namespace {

constexpr std::array<TargetSpec, 6> kPhiTargets = PlainMlpTargets("self_attn.", "mlp.");
constexpr std::array<StoredProjection, 6> kPhiProjections = {{{"q_proj", LoraModule::kQ},
                                                              {"k_proj", LoraModule::kK},
                                                              {"v_proj", LoraModule::kV},
                                                              {"dense", LoraModule::kO},
                                                              {"fc1", kPlainUp},
                                                              {"fc2", kPlainDown}}};
// Microsoft's classes before HF had one; in the first the embedding was layer 0.
constexpr OlderNames::Layers kPhiOlderLayers[] = {{"transformer.h.", 0}, {"layers.", 1}};
constexpr OlderModule kPhiOlderModules[] = {{"Wqkv", "mixer.", LoraModule::kQ, 3},
                                            {"out_proj", "mixer.", LoraModule::kO},
                                            {"fc1", "mlp.", kPlainUp},
                                            {"fc2", "mlp.", kPlainDown}};
constexpr std::string_view kPhiPeftDefault[] = {"q_proj", "v_proj", "fc1", "fc2"};

Status ReadPhi(const ConfigFields& fields, ModelConfig& config) {
  SetPlainMlp(config);
  config.qkv_bias = config.o_bias = config.mlp_bias = config.head_bias = true;
  RETURN_IF_ERROR(RefuseWindow(fields, config));
  RETURN_IF_ERROR(ReadOneRope(fields, config));
  for (LayerSpec& layer : config.layers) layer.parallel = layer.shares_norm = true;
  return ReadPlainActivation(fields, "hidden_act", "gelu_new", config);
}

}  // namespace

constinit const ModelFamily kPhiFamily = {
    .architecture = Architecture::kPhi,
    .name = "PhiForCausalLM",
    .model_type = "phi",
    .rms_norm_epsilon = 1e-5,
    .rotary_factor = 0.5,
    .dimensions = {.norm_epsilon = "layer_norm_eps"},
    .attention_bias = AttentionBias::kAsLayers,
    .may_rotate_in_part = true,
    .read_layers = ReadPhi,
    .lora_targets = kPhiTargets,
    .peft_default = kPhiPeftDefault,
    .projections = kPhiProjections,
    .norms = {.mlp = ""},
    .paths = {.final_norm = "model.final_layernorm"},
    .older = {.layers = kPhiOlderLayers, .modules = kPhiOlderModules},
};

}  // namespace graft
