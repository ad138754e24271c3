// GPT-NeoX and Pythia: attention and MLP of one x by default, heads that rotate in part, LayerNorm,
// an MLP without a gate. q, k and v are stored head by head, and so are the rows of adapters' B.
#include "base/json.h"
#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/families/plain_mlp.h"

namespace graft {
namespace {

constexpr std::array<TargetSpec, 6> kGptNeoXTargets = PlainMlpTargets("attention.", "mlp.");
constexpr std::array<StoredProjection, 4> kGptNeoXProjections = {
    {{"query_key_value", LoraModule::kQ, 3, /*by_heads=*/true},
     {"dense", LoraModule::kO},
     {"dense_h_to_4h", kPlainUp},
     {"dense_4h_to_h", kPlainDown}}};
constexpr std::string_view kGptNeoXFields[] = {"use_parallel_residual"};
constexpr std::string_view kGptNeoXPeftDefault[] = {"query_key_value"};
constexpr std::string_view kGptNeoXMasks[] = {".attention.bias", ".attention.masked_bias"};

Status ReadGptNeoX(const ConfigFields& fields, ModelConfig& config) {
  if (config.num_kv_heads != config.num_heads) {
    return fields.Unsupported("num_key_value_heads", Json(config.num_kv_heads),
                              "as many as num_attention_heads");
  }
  SetPlainMlp(config);
  ASSIGN_OR_RETURN(const bool has_bias, fields.Bool("attention_bias", true));
  config.qkv_bias = config.o_bias = has_bias;
  config.mlp_bias = true;
  RETURN_IF_ERROR(RefuseWindow(fields, config));
  RETURN_IF_ERROR(ReadOneRope(fields, config));
  ASSIGN_OR_RETURN(const bool parallel, fields.Bool("use_parallel_residual", true));
  for (LayerSpec& layer : config.layers) layer.parallel = parallel;
  return ReadPlainActivation(fields, "hidden_act", "gelu", config);
}

}  // namespace

constinit const ModelFamily kGptNeoXFamily = {
    .architecture = Architecture::kGptNeoX,
    .name = "GPTNeoXForCausalLM",
    .model_type = "gpt_neox",
    .rms_norm_epsilon = 1e-5,
    .rotary_factor = 0.25,
    .dimensions = {.norm_epsilon = "layer_norm_eps"},
    .older_rope_theta = "rotary_emb_base",
    .older_rotary_factor = "rotary_pct",
    .attention_bias = AttentionBias::kAsLayers,
    .may_rotate_in_part = true,
    .own_fields = kGptNeoXFields,
    .read_layers = ReadGptNeoX,
    .lora_targets = kGptNeoXTargets,
    .peft_default = kGptNeoXPeftDefault,
    .projections = kGptNeoXProjections,
    .paths = {.layers = "gpt_neox.layers.",
              .embedding = "gpt_neox.embed_in",
              .final_norm = "gpt_neox.final_layer_norm",
              .head = "embed_out",
              .left_out = "gpt_neox."},
    .unread_endings = kGptNeoXMasks,
};

}  // namespace graft
