// Llama 1, 2 and 3.x: what most other families vary.
#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/family.h"

namespace graft {
namespace {

Status ReadLlama(const ConfigFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseWindow(fields, config));
  RETURN_IF_ERROR(SetWindowOfAll(fields, 0, config));
  RETURN_IF_ERROR(ReadOneRope(fields, config));
  return CheckSilu(fields);
}

}  // namespace

constinit const ModelFamily kLlamaFamily = {
    .architecture = Architecture::kLlama,
    .name = "LlamaForCausalLM",
    .model_type = "llama",
    .may_have_mlp_bias = true,
    .read_layers = ReadLlama,
};

}  // namespace graft
