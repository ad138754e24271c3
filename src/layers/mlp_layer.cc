#include "layers/mlp_layer.h"

#include "kernels/gated_activation_backward/gated_activation_backward.h"

namespace graft {

MlpLayer::MlpLayer(LayerContext& context, int32_t layer, const LayerSpec& spec,
                   const LayerWeights& weights)
    : context_(context),
      activation_(spec.activation),
      gate_up_(context, layer, LayerProduct::kGateUp, weights.gate_up, weights.gate_up_bias),
      down_(context, layer, LayerProduct::kDown, weights.down, weights.down_bias) {}

void MlpLayer::Activate(const void* x, const LayerStep& step, void* kept) const {
  LayerScratch& scratch = context_.scratch;
  gate_up_.Run({.x = x,
                .target = {scratch.gate_up.as<float>()},
                .activated = scratch.activated.data(),
                .activation = activation_,
                .kept = kept},
               step);
}

void MlpLayer::Finish(const ResidualTarget& target, const LayerStep& step) const {
  down_.Run({.x = context_.scratch.activated.data(), .target = target}, step);
}

// Gradients of matrices come after those of inputs: what they need beside is then there.
DType MlpLayer::Back(const void* kept, const void* d_y, void* d_x, bool may_round,
                     const LayerStep& step) const {
  BackScratch& room = step.learning->room;
  void* const activated = context_.scratch.activated.data();
  void* const d_activated = context_.scratch.gate_up.data();  // half of it
  const int64_t n = context_.shape.intermediate_size;
  const DType d_dtype = down_.Back({.d_y = d_y, .d_x = d_activated}, step);
  step.learning->pieces.BeforeBytes(6 * step.num_rows() * n * DTypeBytes(context_.activations));
  GatedActivationBackward({.activation = activation_,
                           .dtype = context_.activations,
                           .gate_up = kept,
                           .d_out = d_activated,
                           .d_dtype = d_dtype,
                           .d_gate_up = room.d_gate_up.data(),
                           .num_rows = step.num_rows(),
                           .n = n,
                           .activated = activated},
                          step.stream);
  down_.AddGradients(activated, d_y, step);
  return gate_up_.Back({.d_y = room.d_gate_up.data(), .d_x = d_x, .may_round = may_round}, step);
}

void MlpLayer::AddGradients(const void* x, const LayerStep& step) const {
  gate_up_.AddGradients(x, step.learning->room.d_gate_up.data(), step);
}

}  // namespace graft
