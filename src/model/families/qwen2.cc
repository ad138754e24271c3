// Qwen2 and 2.5: biases of q, k and v, and a window of the last layers where the config uses it.
#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/family.h"

namespace graft {
namespace {

Status ReadQwen2(const ConfigFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int32_t window, ReadUsedWindow(fields));
  RETURN_IF_ERROR(SetWindowOfLast(fields, window, config));
  RETURN_IF_ERROR(ReadOneRope(fields, config));
  return CheckSilu(fields);
}

}  // namespace

constinit const ModelFamily kQwen2Family = {
    .architecture = Architecture::kQwen2,
    .name = "Qwen2ForCausalLM",
    .model_type = "qwen2",
    .attention_bias = AttentionBias::kQkv,
    .read_layers = ReadQwen2,
};

}  // namespace graft
