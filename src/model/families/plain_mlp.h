// What GPT-2 and the families after it share: LayerNorm, and an MLP without a gate. Constants and
// pure functions, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "model/family.h"

namespace graft {

// Their targets are q, k, v and o as all have them, then these.
inline constexpr auto kPlainUp = static_cast<LoraModule>(4);
inline constexpr auto kPlainDown = static_cast<LoraModule>(5);

// Where HF's layer has attention's targets, and the MLP's.
constexpr std::array<TargetSpec, 6> PlainMlpTargets(std::string_view attention,
                                                    std::string_view mlp) {
  using Shape = ModelShape;
  return {{{"q_proj", attention, LayerProduct::kQkv, &Shape::hidden, &Shape::q_size},
           {"k_proj", attention, LayerProduct::kQkv, &Shape::hidden, &Shape::kv_size},
           {"v_proj", attention, LayerProduct::kQkv, &Shape::hidden, &Shape::kv_size},
           {"o_proj", attention, LayerProduct::kO, &Shape::q_size, &Shape::hidden},
           {"up_proj", mlp, LayerProduct::kGateUp, &Shape::hidden, &Shape::intermediate},
           {"down_proj", mlp, LayerProduct::kDown, &Shape::intermediate, &Shape::hidden}}};
}

inline void SetPlainMlp(ModelConfig& config) {
  config.norm = NormKind::kLayer;
  config.gated_mlp = false;
}

// Positions are learned, and no head turns.
inline void SetLearnedPositions(ModelConfig& config) {
  config.num_positions = config.context_tokens_max;
  config.ropes = {{.scaling = RopeScaling::kNoRotation}};
}

}  // namespace graft
