#include "layers/mlp_layer.h"

namespace graft {

MlpLayer::MlpLayer(LayerContext& context, int32_t layer, const LayerSpec& spec,
                   const LayerWeights& weights)
    : context_(context),
      activation_(spec.activation),
      gate_up_(context, layer, LayerProduct::kGateUp, weights.gate_up, weights.gate_up_bias),
      down_(context, layer, LayerProduct::kDown, weights.down, weights.down_bias) {}

void MlpLayer::Run(const void* x, const ResidualTarget& target, const LayerStep& step) const {
  LayerScratch& scratch = context_.scratch;
  gate_up_.Run({.x = x,
                .target = {scratch.gate_up.as<float>()},
                .activated = scratch.activated.data(),
                .activation = activation_},
               step);
  down_.Run({.x = scratch.activated.data(), .target = target}, step);
}

}  // namespace graft
