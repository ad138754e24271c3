// Ministral 3: Mistral without windows, with yarn and queries that grow with their position.
#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/family.h"

namespace graft {
namespace {

// What HF's class takes where no rope parameters are given.
RopeConfig Ministral3Rope() {
  RopeConfig rope;
  rope.theta = 1e6;
  rope.scaling = RopeScaling::kYarn;
  rope.factor = 16.0;
  rope.original_tokens = 16384;
  rope.query_beta = 0.1;
  return rope;
}

Status ReadMinistral3(const ConfigFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int32_t window, fields.Int("sliding_window", 1, kConfigContextMax, 0));
  RETURN_IF_ERROR(SetWindowOfAll(fields, window, config));
  ASSIGN_OR_RETURN(const RopeObject rope, FindRope(fields));
  if (rope.json != nullptr) {
    RETURN_IF_ERROR(ReadOneRope(fields, config));
  } else {
    config.ropes[0] = Ministral3Rope();
  }
  return CheckSilu(fields);
}

}  // namespace

constinit const ModelFamily kMinistral3Family = {
    .architecture = Architecture::kMinistral3,
    .name = "Ministral3ForCausalLM",
    .model_type = "ministral3",
    .head_dim = 128,
    .rms_norm_epsilon = 1e-5,
    .rope_theta = 1e6,
    .attention_bias = AttentionBias::kNone,
    .may_scale_queries = true,
    .read_layers = ReadMinistral3,
    .has_peft_default = false,
};

}  // namespace graft
