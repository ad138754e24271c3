#include "layers/mlp_layer.h"

#include "kernels/activate_backward/activate_backward.h"
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
  void* const d_activated = context_.scratch.gate_up.data();  // which has room for more
  const DType d_dtype = down_.Back({.d_y = d_y, .d_x = d_activated}, step);
  BackToGateUp(kept, d_activated, d_dtype, step);
  down_.AddGradients(context_.scratch.activated.data(), d_y, step);
  return gate_up_.Back({.d_y = room.d_gate_up.data(), .d_x = d_x, .may_round = may_round}, step);
}

void MlpLayer::BackToGateUp(const void* kept, const void* d_activated, DType d_dtype,
                            const LayerStep& step) const {
  const ModelShape& shape = context_.shape;
  void* const activated = context_.scratch.activated.data();
  void* const d_gate_up = step.learning->room.d_gate_up.data();
  const int64_t elements = 2 * (shape.gate_up_size() + shape.intermediate());  // of a row
  step.learning->pieces.BeforeBytes(elements * step.num_rows() * DTypeBytes(context_.activations));
  if (!shape.gated_mlp) {
    return ActivateBackward({.activation = activation_,
                             .dtype = context_.activations,
                             .x = kept,
                             .d_out = d_activated,
                             .d_dtype = d_dtype,
                             .d_x = d_gate_up,
                             .n = step.num_rows() * shape.intermediate(),
                             .activated = activated},
                            step.stream);
  }
  GatedActivationBackward({.activation = activation_,
                           .dtype = context_.activations,
                           .gate_up = kept,
                           .d_out = d_activated,
                           .d_dtype = d_dtype,
                           .d_gate_up = d_gate_up,
                           .num_rows = step.num_rows(),
                           .n = shape.intermediate(),
                           .activated = activated},
                          step.stream);
}

void MlpLayer::AddGradients(const void* x, const LayerStep& step) const {
  gate_up_.AddGradients(x, step.learning->room.d_gate_up.data(), step);
}

}  // namespace graft
