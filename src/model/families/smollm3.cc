// SmolLM3: Llama with some layers in which heads do not rotate, by default every fourth.
#include "base/json.h"
#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/family.h"

namespace graft {
namespace {

constexpr std::string_view kSmolLm3Fields[] = {"no_rope_layers", "no_rope_layer_interval"};

// no_rope_layers has, in spite of its name, a 1 for each layer that rotates.
Result<std::vector<bool>> ReadRotating(const ConfigFields& fields, int32_t num_layers) {
  std::vector<bool> rotates(num_layers);
  const Json* listed = fields.Find("no_rope_layers");
  if (listed == nullptr) {
    ASSIGN_OR_RETURN(const int32_t interval,
                     fields.Int("no_rope_layer_interval", 1, kConfigContextMax, 4));
    for (int32_t i = 0; i < num_layers; ++i) rotates[i] = (i + 1) % interval != 0;
    return rotates;
  }
  bool is_right = listed->is_array() && listed->size() >= static_cast<size_t>(num_layers);
  for (int32_t i = 0; is_right && i < num_layers; ++i) {
    const Json& value = (*listed)[i];
    is_right = value == 0 || value == 1;
    rotates[i] = value == 1;
  }
  if (is_right) return rotates;
  return fields.Wrong("no_rope_layers", *listed,
                      "a list of num_hidden_layers numbers, 1 for a layer that rotates, else 0");
}

Status ReadSmolLm3(const ConfigFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const bool uses_window, fields.Bool("use_sliding_window", false));
  ASSIGN_OR_RETURN(const int32_t window, fields.Int("sliding_window", 1, kConfigContextMax, 0));
  ASSIGN_OR_RETURN(const std::vector<bool> rotates, ReadRotating(fields, config.num_layers));
  RETURN_IF_ERROR(ReadOneRope(fields, config));
  std::vector<bool> slides(config.num_layers);
  for (int32_t i = 0; i < config.num_layers; ++i) {
    if (rotates[i]) continue;
    if (config.ropes.size() == 1) config.ropes.push_back({.scaling = RopeScaling::kNoRotation});
    config.layers[i].rope = 1;
    slides[i] = uses_window && window != 0;
  }
  RETURN_IF_ERROR(SetWindows(fields, uses_window ? window : 0, slides, config));
  return CheckSilu(fields);
}

}  // namespace

constinit const ModelFamily kSmolLm3Family = {
    .architecture = Architecture::kSmolLm3,
    .name = "SmolLM3ForCausalLM",
    .model_type = "smollm3",
    .rope_theta = 2000000.0,
    .tied_embeddings = true,
    .may_have_mlp_bias = true,
    .own_fields = kSmolLm3Fields,
    .read_layers = ReadSmolLm3,
    .has_peft_default = false,
};

}  // namespace graft
