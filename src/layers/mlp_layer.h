// MlpLayer: gate and up, their gated activation, and the product back to the residual stream, in
// models without a gate up and its activation; and, where a step learns, back. Engine thread, or
// the thread that trains.
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

  // From x, [rows, hidden] of activations, to `target`: gate, up and their activation, and the
  // rest. `kept`: for a backward, gate and up, or null.
  void Activate(const void* x, const LayerStep& step, void* kept = nullptr) const;
  void Finish(const ResidualTarget& target, const LayerStep& step) const;
  // As AttentionLayer has them; d_x may be rounded, or be null.
  DType Back(const void* kept, const void* d_y, void* d_x, bool may_round,
             const LayerStep& step) const;
  void AddGradients(const void* x, const LayerStep& step) const;

 private:
  // From d_activated, of d_dtype, to BackScratch::d_gate_up, and what was activated once more.
  void BackToGateUp(const void* kept, const void* d_activated, DType d_dtype,
                    const LayerStep& step) const;

  LayerContext& context_;
  const Activation activation_;
  const Projection gate_up_;
  const Projection down_;
};

}  // namespace graft
