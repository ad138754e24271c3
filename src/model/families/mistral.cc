// Mistral: Llama without biases, with a window of all layers.
#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/family.h"

namespace graft {
namespace {

Status ReadMistral(const ConfigFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int32_t window, ReadWindow(fields));
  RETURN_IF_ERROR(SetWindowOfAll(fields, window, config));
  RETURN_IF_ERROR(ReadOneRope(fields, config));
  return CheckSilu(fields);
}

}  // namespace

constinit const ModelFamily kMistralFamily = {
    .architecture = Architecture::kMistral,
    .name = "MistralForCausalLM",
    .model_type = "mistral",
    .attention_bias = AttentionBias::kNone,
    .read_layers = ReadMistral,
};

}  // namespace graft
