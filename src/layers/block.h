// Block: one layer of the model as its LayerSpec says,
//   x += scale * [output norm](attention([norm](x)))
//   x += scale * [output norm](mlp([norm](x)))
// or x += attention(norm(x)) + mlp(norm(x))
// over the residual stream x, scratch.hidden. Engine thread only.
#pragma once

#include <cstdint>
#include <optional>

#include "layers/attention_layer.h"
#include "layers/layer_context.h"
#include "layers/layer_step.h"
#include "layers/layer_weights.h"
#include "layers/mlp_layer.h"
#include "layers/norm.h"

namespace graft {

class Block {
 public:
  // Borrows context and weights. See AttentionLayer.
  Block(LayerContext& context, int32_t layer, int32_t kv_layer, const LayerSpec& spec,
        const LayerWeights& weights, const RopeAngles& rope);

  void Run(const LayerStep& step) const;

 private:
  void RunInParallel(const LayerStep& step) const;
  void Normalize(const Norm& norm, void* out, const LayerStep& step) const;
  // Where attention and MLP write: they add to the residual stream, or, where an output norm is to
  // come or the sum of several ranks to be scaled, they write scratch.branch.
  bool HasBranch(const std::optional<Norm>& output_norm) const;
  ResidualTarget TargetOf(const std::optional<Norm>& output_norm) const;
  void AddBranch(const std::optional<Norm>& output_norm, const LayerStep& step) const;

  LayerContext& context_;
  const float residual_scale_;
  const bool parallel_;
  const bool has_second_norm_;  // LayerSpec's
  const Norm attention_norm_;
  const AttentionLayer attention_;
  const std::optional<Norm> attention_output_norm_;
  const Norm mlp_norm_;
  const MlpLayer mlp_;
  const std::optional<Norm> mlp_output_norm_;
};

}  // namespace graft
