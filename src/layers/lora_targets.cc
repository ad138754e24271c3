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

}  // namespace graft
