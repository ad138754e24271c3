// Phi-3, 3.5 mini, 4 and 4 mini: q, k, v and gate, up are stacked in the checkpoint, adapters name
// the stacks, heads may rotate in part, and longrope reaches long contexts.
#include <array>

#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/family.h"

namespace graft {
namespace {

constexpr std::array<StoredProjection, 4> kPhi3Projections = {
    {{"qkv_proj", LoraModule::kQ, 3},
     {"o_proj", LoraModule::kO},
     {"gate_up_proj", LoraModule::kGate, 2},
     {"down_proj", LoraModule::kDown}}};

// The older names of longrope are so for Phi-3 alone.
constexpr RopeType kPhi3RopeTypes[] = {{"longrope", RopeScaling::kLongRope},
                                       {"su", RopeScaling::kLongRope},
                                       {"yarn", RopeScaling::kLongRope}};

Status ReadPhi3(const ConfigFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int32_t window, fields.Int("sliding_window", 1, kConfigContextMax, 0));
  RETURN_IF_ERROR(SetWindowOfAll(fields, window, config));
  RETURN_IF_ERROR(ReadOneRope(fields, config));
  return CheckSilu(fields);
}

}  // namespace

constinit const ModelFamily kPhi3Family = {
    .architecture = Architecture::kPhi3,
    .name = "Phi3ForCausalLM",
    .model_type = "phi3",
    .rms_norm_epsilon = 1e-5,
    .attention_bias = AttentionBias::kNone,
    .may_rotate_in_part = true,
    .rope_types = {kPhi3RopeTypes, "longrope with Phi3ForCausalLM"},
    .read_layers = ReadPhi3,
    .has_peft_default = false,
    .projections = kPhi3Projections,
};

}  // namespace graft
