// GPT-Neo: learned positions, LayerNorm, an MLP without a gate, scores without a scale, and by
// default a window of every second layer.
#include <vector>

#include "base/json.h"
#include "model/config_layers.h"
#include "model/families/plain_mlp.h"

namespace graft {
namespace {

constexpr std::array<TargetSpec, 6> kGptNeoTargets = PlainMlpTargets("attn.attention.", "mlp.");
constexpr std::array<StoredProjection, 6> kGptNeoProjections = {{{"q_proj", LoraModule::kQ},
                                                                 {"k_proj", LoraModule::kK},
                                                                 {"v_proj", LoraModule::kV},
                                                                 {"out_proj", LoraModule::kO},
                                                                 {"c_fc", kPlainUp},
                                                                 {"c_proj", kPlainDown}}};
constexpr std::string_view kGptNeoMasks[] = {".attn.attention.bias", ".attn.attention.masked_bias"};

// attention_types is a list of [kinds, how often they repeat]; 12 times global and local where it
// is absent.
Result<std::vector<bool>> ReadLocalLayers(const ConfigFields& fields, int32_t num_layers) {
  const Json absent = Json::array({Json::array({Json::array({"global", "local"}), 12})});
  const Json* given = fields.Find("attention_types");
  const Json& types = given != nullptr ? *given : absent;
  const auto wrong = [&] {
    return fields.Wrong("attention_types", types,
                        "a list of [[kinds], times], of \"global\" and \"local\", for " +
                            std::to_string(num_layers) + " layers");
  };
  std::vector<bool> local;
  if (!types.is_array()) return wrong();
  for (const Json& item : types) {
    const bool is_pair = item.is_array() && item.size() == 2 && item[0].is_array() &&
                         !item[0].empty() && item[1].is_number_integer();
    if (!is_pair || item[1] < 0 || item[1] > num_layers) return wrong();
    for (int32_t i = 0; i < item[1].get<int32_t>(); ++i) {
      for (const Json& kind : item[0]) {
        if (kind != "global" && kind != "local") return wrong();
        if (local.size() == static_cast<size_t>(num_layers)) return wrong();
        local.push_back(kind == "local");
      }
    }
  }
  if (local.size() != static_cast<size_t>(num_layers)) return wrong();
  return local;
}

Status ReadGptNeo(const ConfigFields& fields, ModelConfig& config) {
  SetPlainMlp(config);
  SetLearnedPositions(config);
  config.o_bias = config.mlp_bias = true;
  ASSIGN_OR_RETURN(const std::vector<bool> local, ReadLocalLayers(fields, config.num_layers));
  ASSIGN_OR_RETURN(const int32_t window, fields.Int("window_size", 1, kConfigContextMax, 256));
  for (int32_t i = 0; i < config.num_layers; ++i) {
    config.layers[i].attention_scale = 1.0f;
    config.layers[i].window = local[i] ? window : 0;
  }
  return ReadPlainActivation(fields, "activation_function", "gelu_new", config);
}

}  // namespace

constinit const ModelFamily kGptNeoFamily = {
    .architecture = Architecture::kGptNeo,
    .name = "GPTNeoForCausalLM",
    .model_type = "gpt_neo",
    .rms_norm_epsilon = 1e-5,
    .mlp_ratio = 4,
    .tied_embeddings = true,
    .dimensions = {.layers = "num_layers",
                   .heads = "num_heads",
                   .norm_epsilon = "layer_norm_epsilon"},
    .attention_bias = AttentionBias::kAsLayers,
    .read_layers = ReadGptNeo,
    .lora_targets = kGptNeoTargets,
    .projections = kGptNeoProjections,
    .norms = {.attention = "ln_1", .mlp = "ln_2"},
    .paths = {.layers = "transformer.h.",
              .embedding = "transformer.wte",
              .positions = "transformer.wpe",
              .final_norm = "transformer.ln_f",
              .left_out = "transformer."},
    .unread_endings = kGptNeoMasks,
};

}  // namespace graft
