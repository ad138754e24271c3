// EXAONE 4: attention and MLP read the residual stream as it is, and what they return is normed, as
// are each head of q and k. Where some layers slide, those that attend fully do not rotate.
#include "base/json.h"
#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/family.h"

namespace graft {
namespace {

constexpr int64_t kIntervalAbsent = 4;  // every so many'th layer attends fully

// Which layers slide where layer_types does not say it. A pattern of letters ("LLLG") stands beside
// layer_types in what is published, and HF's class cannot read it alone.
Result<std::vector<bool>> ReadSliding(const ConfigFields& fields, int32_t window,
                                      int32_t num_layers) {
  const Json* pattern = fields.Find("sliding_window_pattern");
  const bool is_listed = fields.Find("layer_types") != nullptr;
  if (window == 0 || is_listed) return std::vector<bool>(num_layers);
  if (pattern != nullptr && pattern->is_string()) {
    return fields.Unsupported("sliding_window_pattern", *pattern,
                              "a number, or layer_types that lists the kind of each layer");
  }
  ASSIGN_OR_RETURN(const int32_t interval,
                   fields.Int("sliding_window_pattern", 1, 1 << 20, kIntervalAbsent));
  return SlidesButEvery(interval, num_layers);
}

Status ReadExaone4(const ConfigFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int32_t window, ReadWindow(fields));
  ASSIGN_OR_RETURN(const std::vector<bool> slides, ReadSliding(fields, window, config.num_layers));
  RETURN_IF_ERROR(SetWindows(fields, window, slides, config));
  RETURN_IF_ERROR(ReadOneRope(fields, config));
  if (window != 0) config.ropes.push_back({.scaling = RopeScaling::kNoRotation});
  for (LayerSpec& layer : config.layers) {
    layer.rope = window == 0 || layer.window > 0 ? 0 : 1;
    layer.input_norms = false;
    layer.output_norms = true;
  }
  return CheckSilu(fields);
}

}  // namespace

constinit const ModelFamily kExaone4Family = {
    .architecture = Architecture::kExaone4,
    .name = "Exaone4ForCausalLM",
    .model_type = "exaone4",
    .rms_norm_epsilon = 1e-5,
    .attention_bias = AttentionBias::kNone,
    .norms_qk = true,
    .read_layers = ReadExaone4,
    .has_peft_default = false,
    .norms = {.attention = "",
              .attention_output = "post_attention_layernorm",
              .mlp = "",
              .mlp_output = "post_feedforward_layernorm",
              .q = "self_attn.q_norm",
              .k = "self_attn.k_norm"},
};

}  // namespace graft
