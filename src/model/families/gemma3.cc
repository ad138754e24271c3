// Gemma 3, text: Gemma 2 with norms of each head of q and k in place of caps, and with angles of
// their own for layers that slide.
#include <string>
#include <string_view>

#include "base/json.h"
#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/families/gemma_layers.h"

namespace graft {
namespace {

constexpr double kGemma3Theta = 1e6;  // of layers that attend fully

constexpr NormNames Gemma3Norms() {
  NormNames names = kGemmaNorms;
  names.q = "self_attn.q_norm";
  names.k = "self_attn.k_norm";
  return names;
}

// Every so many'th layer attends fully.
Result<int32_t> ReadPattern(const ConfigFields& fields) {
  const bool is_older = fields.Find("sliding_window_pattern") != nullptr;
  return fields.Int(is_older ? "sliding_window_pattern" : "_sliding_window_pattern", 1, 1 << 20, 6);
}

// Angles of layers that attend fully (0) and of those that slide (1).
Status ReadTwoRopes(const ConfigFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const RopeObject rope, FindRope(fields));
  config.ropes = {RopeConfig{.theta = kGemma3Theta}, RopeConfig{}};
  RETURN_IF_ERROR(ReadTheta("rope_theta", fields, config.ropes[0]));
  RETURN_IF_ERROR(ReadTheta("rope_local_base_freq", fields, config.ropes[1]));
  for (LayerSpec& layer : config.layers) layer.rope = layer.window > 0 ? 1 : 0;
  if (rope.json == nullptr) return OkStatus();
  if (rope.name == "rope_scaling") {  // the older form, of layers that attend fully
    return ReadRopeScaling(fields, ConfigFields(*rope.json, rope.name + "."), config,
                           config.ropes[0]);
  }
  for (const auto& [key, value] : rope.json->items()) {
    const bool is_known = key == "full_attention" || key == "sliding_attention";
    if (!is_known || (!value.is_null() && !value.is_object())) {
      return fields.Unsupported(rope.name + "." + key, value,
                                "an object each for full_attention and sliding_attention");
    }
    if (value.is_null()) continue;
    RopeConfig& out = config.ropes[key == "full_attention" ? 0 : 1];
    const ConfigFields inner(value, rope.name + "." + key + ".");
    RETURN_IF_ERROR(ReadTheta("rope_theta", inner, out));
    RETURN_IF_ERROR(ReadRotaryDim(fields, inner, config));
    RETURN_IF_ERROR(ReadRopeScaling(fields, inner, config, out));
  }
  return OkStatus();
}

Status ReadGemma3(const ConfigFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int32_t window, ReadWindow(fields));
  ASSIGN_OR_RETURN(const int32_t pattern, ReadPattern(fields));
  RETURN_IF_ERROR(SetWindows(fields, window, GemmaSliding(config.num_layers, pattern), config));
  RETURN_IF_ERROR(ReadTwoRopes(fields, config));
  RETURN_IF_ERROR(ReadGeluTanh(fields, config));
  return ReadGemmaLayers(fields, {}, config);
}

}  // namespace

constinit const ModelFamily kGemma3Family = {
    .architecture = Architecture::kGemma3,
    .name = "Gemma3ForCausalLM",
    .model_type = "gemma3_text",
    .head_dim = 256,
    .tied_embeddings = true,
    .norms_qk = true,
    .own_fields = kGemmaFields,
    .read_layers = ReadGemma3,
    .norms = Gemma3Norms(),
};

}  // namespace graft
