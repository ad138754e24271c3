// Qwen3, dense: norms of each head of q and k, heads of a size that head_dim gives, and
// Qwen2's windows.
#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/family.h"

namespace graft {
namespace {

Status ReadQwen3(const ConfigFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int32_t window, ReadUsedWindow(fields));
  RETURN_IF_ERROR(SetWindowOfLast(fields, window, config));
  RETURN_IF_ERROR(ReadOneRope(fields, config));
  return CheckSilu(fields);
}

}  // namespace

constinit const ModelFamily kQwen3Family = {
    .architecture = Architecture::kQwen3,
    .name = "Qwen3ForCausalLM",
    .model_type = "qwen3",
    .head_dim = 128,
    .norms_qk = true,
    .read_layers = ReadQwen3,
    .norms = {.q = "self_attn.q_norm", .k = "self_attn.k_norm"},
};

}  // namespace graft
