// MlpLayer: gate and up, their gated activation, and the product back to the residual stream; in
// models without a gate up and its activation.
// Engine thread only.
#pragma once

#include <cstdint>

#include "layers/layer_context.h"
#include "layers/layer_step.h"
#include "layers/layer_weights.h"
#include "layers/projection.h"

namespace graft {

class MlpLayer {
 public:
  // Borrows context and weights.
  MlpLayer(LayerContext& context, int32_t layer, const LayerSpec& spec,
           const LayerWeights& weights);

  // Reads x, [rows, hidden] of LayerContext::activations, and writes `target`.
  void Run(const void* x, const ResidualTarget& target, const LayerStep& step) const;

 private:
  LayerContext& context_;
  const Activation activation_;
  const Projection gate_up_;
  const Projection down_;
};

}  // namespace graft
