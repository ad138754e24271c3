// GPT-2: learned positions, LayerNorm, biases everywhere, an MLP without a gate. Projections are
// HF's Conv1D, with weights [in, out]; q, k and v are stacked. Its first files come from the
// class without a head and have masks in them.
#include "model/config_layers.h"
#include "model/families/plain_mlp.h"

namespace graft {
namespace {

constexpr std::array<TargetSpec, 6> kGpt2Targets = PlainMlpTargets("attn.", "mlp.");
constexpr std::array<StoredProjection, 4> kGpt2Projections = {{{"c_attn", LoraModule::kQ, 3},
                                                               {"c_proj", LoraModule::kO},
                                                               {"c_fc", kPlainUp},
                                                               {"c_proj", kPlainDown}}};
constexpr std::string_view kGpt2Fields[] = {"scale_attn_by_inverse_layer_idx"};
constexpr std::string_view kGpt2PeftDefault[] = {"c_attn"};
constexpr std::string_view kGpt2Masks[] = {".attn.bias", ".attn.masked_bias"};

Status ReadGpt2(const ConfigFields& fields, ModelConfig& config) {
  SetPlainMlp(config);
  SetLearnedPositions(config);
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  ASSIGN_OR_RETURN(const bool scales, fields.Bool("scale_attn_weights", true));
  ASSIGN_OR_RETURN(const bool by_layer, fields.Bool("scale_attn_by_inverse_layer_idx", false));
  for (int32_t i = 0; i < config.num_layers; ++i) {
    LayerSpec& layer = config.layers[i];
    if (!scales) layer.attention_scale = 1.0f;
    if (by_layer) layer.attention_scale /= static_cast<float>(i + 1);
  }
  return ReadPlainActivation(fields, "activation_function", "gelu_new", config);
}

}  // namespace

constinit const ModelFamily kGpt2Family = {
    .architecture = Architecture::kGpt2,
    .name = "GPT2LMHeadModel",
    .model_type = "gpt2",
    .rms_norm_epsilon = 1e-5,
    .mlp_ratio = 4,
    .tied_embeddings = true,
    .dimensions = {.hidden = "n_embd",
                   .intermediate = "n_inner",
                   .layers = "n_layer",
                   .heads = "n_head",
                   .context = "n_positions",
                   .norm_epsilon = "layer_norm_epsilon"},
    .attention_bias = AttentionBias::kAsLayers,
    .own_fields = kGpt2Fields,
    .read_layers = ReadGpt2,
    .lora_targets = kGpt2Targets,
    .peft_default = kGpt2PeftDefault,
    .projections = kGpt2Projections,
    .norms = {.attention = "ln_1", .mlp = "ln_2"},
    .paths = {.layers = "transformer.h.",
              .embedding = "transformer.wte",
              .positions = "transformer.wpe",
              .final_norm = "transformer.ln_f",
              .left_out = "transformer."},
    .transposes_weights = true,
    .unread_endings = kGpt2Masks,
};

}  // namespace graft
