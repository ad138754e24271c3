// AttentionLayer: q, k and v of the rows, turned and put into pages, attention over the pages, and
// the product back to the residual stream. Engine thread only.
#pragma once

#include <cstdint>

#include "kernels/attention_backward/attention_backward.h"
#include "layers/layer_context.h"
#include "layers/layer_step.h"
#include "layers/layer_weights.h"
#include "layers/projection.h"

namespace graft {

// The rope that turns a layer's queries and keys: fp32 [positions, rotary dimensions / 2].
struct RopeAngles {
  const float* cos = nullptr;
  const float* sin = nullptr;
  const float* query_scale = nullptr;  // [positions]; null: queries are not scaled
};

// What a backward needs of a layer's attention, of LayerContext::activations.
struct AttentionKept {
  void* qkv = nullptr;       // [rows, q + k + v]: RopeKvWriteArgs::copy
  void* attended = nullptr;  // [rows, q]
  // [rows, q + k], where queries and keys are normed: what the norms read.
  void* unnormed = nullptr;
};

// The gradient of what attention made, by queries, keys and values before they were turned.
struct AttentionBack {
  AttentionKept kept;
  const void* d_attended = nullptr;  // [rows, q] of d_dtype
  DType d_dtype = DType::kF32;       // or of activations
  void* d_qkv = nullptr;             // [rows, q + k + v] of activations
  // [sequences] or null: keys and values in front of each, and room for their gradients.
  const AttentionPrefix* prefixes = nullptr;
  const float* back_sin = nullptr;  // as RopeAngles::sin, of turns back
  float* scratch = nullptr;         // AttentionBackwardFloats, on a GPU AttentionBackwardGpuFloats
};

class AttentionLayer {
 public:
  // Borrows context and weights. `kv_layer`: the layer's place among those with keys and values.
  AttentionLayer(LayerContext& context, int32_t layer, int32_t kv_layer, const LayerSpec& spec,
                 const LayerWeights& weights, const RopeAngles& rope);

  // Reads scratch.normed, and writes `target`.
  void Run(const ResidualTarget& target, const LayerStep& step) const;

  // The middle of Run: turns queries and keys in scratch.qkv, and attends to scratch.attended or,
  // for a backward, to `kept`. And the gradient of that.
  void Attend(const LayerStep& step, const AttentionKept* kept = nullptr) const;
  void Back(const AttentionBack& back, const LayerStep& step) const;

 private:
  // A norm of each head of q or k, which the turning does too; null: there is none.
  const float* HeadNormOf(const Buffer& weight) const;
  // Where LayerSpec::qk_norm_across_heads. `kept` may be null, also below.
  void NormAcrossHeads(const LayerStep& step, const AttentionKept* kept) const;
  // The gradients of normed queries and keys become those of what the norms read.
  void BackThroughNorms(const AttentionBack& back, const LayerStep& step) const;
  // Normalises (where the model does) and turns q and k, and stores k and v in their pages.
  void PlaceKeysAndValues(const LayerStep& step, const AttentionKept* kept) const;
  void AttendPages(const LayerStep& step, void* out) const;

  LayerContext& context_;
  const int32_t kv_layer_;
  const LayerSpec spec_;
  const LayerWeights& weights_;
  const RopeAngles rope_;
  const Projection qkv_;
  const Projection o_;
};

}  // namespace graft
