// Block: one layer of the model as its LayerSpec says,
//   x += scale * [output norm](attention([norm](x)))
//   x += scale * [output norm](mlp([norm](x)))
// or x += attention(norm(x)) + mlp(norm(x))
// over the residual stream x, scratch.hidden; and, where a step learns, the same back, from that
// stream's gradient behind the layer to the one before it. Engine thread, or the thread that
// trains.
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

  // `kept`: for a backward, or null.
  void Run(const LayerStep& step, const LayerKept* kept = nullptr) const;
  // From the residual stream that Run found: what it kept, again.
  void RunAgain(const LayerStep& step, const LayerKept& kept) const;

  struct BackCall {
    LayerKept kept;                             // by Run, or again
    const AttentionPrefix* prefixes = nullptr;  // see AttentionBack
    bool has_below = true;                      // something below the layer learns
    float copy_scale = 1.0f;                    // of BackScratch::d_hidden_copy, for what is below
    KvMemory memory = {};                       // see AttentionBack
  };
  // Changes BackScratch::d_hidden, uses scratch.branch, and adds the gradients of the layer's LoRA.
  void Back(const BackCall& call, const LayerStep& step) const;
  // See AttentionLayer.
  void TakeMemory(const KvMemory& memory, const LayerKept& kept, const LayerStep& step) const {
    attention_.TakeMemory(memory, kept.attention, step);
  }

 private:
  // What a parallel layer's MLP reads: what attention reads, or another norm of x.
  const void* NormalizeBeside(const void* normed, const LayerStep& step) const;
  void RunToActivation(const LayerStep& step, const LayerKept* kept) const;
  void Finish(const LayerStep& step, const LayerKept* kept) const;
  // What attention and MLP read: scratch.normed, or the stream itself, where that is the same.
  const void* Normalize(const Norm& norm, const LayerStep& step, void* kept) const;
  // Where attention and MLP write: they add to the residual stream, or, where an output norm is to
  // come or the sum of several ranks to be scaled, they write scratch.branch.
  bool HasBranch(const std::optional<Norm>& output_norm) const;
  ResidualTarget TargetOf(const std::optional<Norm>& output_norm) const;
  void AddBranch(const std::optional<Norm>& output_norm, const LayerStep& step, void* kept) const;
  // The gradient of what attention or MLP wrote, as products read it.
  const void* BackToBranch(const std::optional<Norm>& output_norm, const void* kept,
                           const LayerStep& step) const;
  // A gradient of what a norm made.
  struct NormedGradient {
    const Norm& norm;
    const void* kept = nullptr;   // what the norm read
    const void* d_out = nullptr;  // [rows, hidden] of d_dtype; null: there is none
    DType d_dtype = DType::kF32;
  };
  // Adds what comes back through the norm to the stream's gradient. Returns what the norm made,
  // again.
  const void* BackToStream(const NormedGradient& gradient, float copy_scale,
                           const LayerStep& step) const;
  void BackInParallel(const BackCall& call, const LayerStep& step) const;

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
