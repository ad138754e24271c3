// OLMo 3: OLMo 2 with a window of three layers in four; no scaling stretches the angles of those.
#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/families/olmo_layers.h"

namespace graft {
namespace {

// Every fourth layer attends fully where layer_types is absent.
Status ReadOlmo3(const ConfigFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int32_t window, ReadWindow(fields));
  RETURN_IF_ERROR(SetWindows(fields, window, SlidesButEvery(4, config.num_layers), config));
  RopeConfig both{.theta = 500000.0};
  RETURN_IF_ERROR(ReadTheta("rope_theta", fields, both));
  RETURN_IF_ERROR(ReadTwoRopes(fields, both.theta, both.theta, config));
  SetOlmoNorms(config);
  return CheckSilu(fields);
}

}  // namespace

constinit const ModelFamily kOlmo3Family = {
    .architecture = Architecture::kOlmo3,
    .name = "Olmo3ForCausalLM",
    .model_type = "olmo3",
    .rms_norm_epsilon = 1e-5,
    .norms_qk = true,
    .read_layers = ReadOlmo3,
    .has_peft_default = false,
    .norms = kOlmoNorms,
};

}  // namespace graft
