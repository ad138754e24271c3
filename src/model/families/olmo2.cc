// OLMo 2: attention and MLP read the residual stream as it is, and what they return is normed.
// Queries and keys are normed over the columns of all heads.
#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/families/olmo_layers.h"

namespace graft {
namespace {

Status ReadOlmo2(const ConfigFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseWindow(fields, config));
  RETURN_IF_ERROR(SetWindowOfAll(fields, 0, config));
  RETURN_IF_ERROR(ReadOneRope(fields, config));
  SetOlmoNorms(config);
  return CheckSilu(fields);
}

}  // namespace

constinit const ModelFamily kOlmo2Family = {
    .architecture = Architecture::kOlmo2,
    .name = "Olmo2ForCausalLM",
    .model_type = "olmo2",
    .rms_norm_epsilon = 1e-5,
    .norms_qk = true,
    .read_layers = ReadOlmo2,
    .has_peft_default = false,
    .norms = kOlmoNorms,
};

}  // namespace graft
