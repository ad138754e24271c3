// What GLM-4's two classes share: gate and up are stacked in the checkpoint, half of a head's
// dimensions rotate, in pairs of neighbours, and q, k and v have biases. Constants and pure
// functions, any thread.
#pragma once

#include <array>

#include "model/config_layers.h"
#include "model/config_rope.h"
#include "model/family.h"

namespace graft {

inline constexpr std::array<StoredProjection, 6> kGlmProjections = {
    {{"q_proj", LoraModule::kQ},
     {"k_proj", LoraModule::kK},
     {"v_proj", LoraModule::kV},
     {"o_proj", LoraModule::kO},
     {"gate_up_proj", LoraModule::kGate, 2},
     {"down_proj", LoraModule::kDown}}};

inline constexpr double kGlmEpsilon = 0.00000015625;

inline Status ReadGlmLayers(const ConfigFields& fields, ModelConfig& config) {
  RETURN_IF_ERROR(RefuseWindow(fields, config));
  RETURN_IF_ERROR(SetWindowOfAll(fields, 0, config));
  RETURN_IF_ERROR(ReadOneRope(fields, config));
  config.rope_interleaved = true;
  return CheckSilu(fields);
}

}  // namespace graft
