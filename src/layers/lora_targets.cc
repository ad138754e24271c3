#include "layers/lora_targets.h"

#include "layers/layer_spec.h"

namespace graft {

constexpr std::array<TargetSpec, kLoraModules> kDenseTargets = {
    {{"q_proj", "self_attn.", LayerProduct::kQkv, &ModelShape::hidden, &ModelShape::q_size},
     {"k_proj", "self_attn.", LayerProduct::kQkv, &ModelShape::hidden, &ModelShape::kv_size},
     {"v_proj", "self_attn.", LayerProduct::kQkv, &ModelShape::hidden, &ModelShape::kv_size},
     {"o_proj", "self_attn.", LayerProduct::kO, &ModelShape::q_size, &ModelShape::hidden},
     {"gate_proj", "mlp.", LayerProduct::kGateUp, &ModelShape::hidden, &ModelShape::intermediate},
     {"up_proj", "mlp.", LayerProduct::kGateUp, &ModelShape::hidden, &ModelShape::intermediate},
     {"down_proj", "mlp.", LayerProduct::kDown, &ModelShape::intermediate, &ModelShape::hidden}}};

constexpr std::array<TargetSpec, kLayerProducts> kStackedTargets = {
    {{"qkv_proj", "self_attn.", LayerProduct::kQkv, &ModelShape::hidden, &ModelShape::qkv_size},
     kDenseTargets[static_cast<size_t>(LoraModule::kO)],
     {"gate_up_proj", "mlp.", LayerProduct::kGateUp, &ModelShape::hidden,
      &ModelShape::gate_up_size},
     kDenseTargets[static_cast<size_t>(LoraModule::kDown)]}};

constexpr std::array<TargetSpec, 6> kStackedMlpTargets = {
    {kDenseTargets[static_cast<size_t>(LoraModule::kQ)],
     kDenseTargets[static_cast<size_t>(LoraModule::kK)],
     kDenseTargets[static_cast<size_t>(LoraModule::kV)], kStackedTargets[1], kStackedTargets[2],
     kStackedTargets[3]}};

int64_t ModelShape::LoraColumnsBefore(int32_t layer, LoraModule module) const {
  int64_t before = 0, of_layer = 0;
  for (const LoraModule other : lora_modules()) {
    const TargetSpec& target = lora_target(other);
    const int64_t columns = (this->*target.in)() + (this->*target.out)();
    if (other < module) before += columns;
    of_layer += columns;
  }
  return layer * of_layer + before;
}

}  // namespace graft
