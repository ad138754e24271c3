// AttentionLayer: q, k and v of the rows, turned and put into pages, attention over the pages, and
// the product back to the residual stream. Engine thread only.
#pragma once

#include <cstdint>

#include "layers/layer_context.h"
#include "layers/layer_step.h"
#include "layers/layer_weights.h"
#include "layers/projection.h"

namespace graft {

// The rope that turns a layer's queries and keys: fp32 [positions, rotary dimensions / 2].
struct RopeAngles {
  const float* cos = nullptr;
  const float* sin = nullptr;
};

class AttentionLayer {
 public:
  // Borrows context and weights. `kv_layer`: the layer's place among those with keys and values.
  AttentionLayer(LayerContext& context, int32_t layer, int32_t kv_layer, const LayerSpec& spec,
                 const LayerWeights& weights, const RopeAngles& rope);

  // Reads scratch.normed, and writes `target`.
  void Run(const ResidualTarget& target, const LayerStep& step) const;

 private:
  // A norm of each head of q or k, which the turning does too; null: there is none.
  const float* HeadNormOf(const Buffer& weight) const;
  // Where LayerSpec::qk_norm_across_heads.
  void NormAcrossHeads(const LayerStep& step) const;
  // Normalises (where the model does) and turns q and k, and stores k and v in their pages.
  void PlaceKeysAndValues(const LayerStep& step) const;
  void AttendPages(const LayerStep& step) const;

  LayerContext& context_;
  const int32_t kv_layer_;
  const LayerSpec spec_;
  const LayerWeights& weights_;
  const RopeAngles rope_;
  const Projection qkv_;
  const Projection o_;
};

}  // namespace graft
