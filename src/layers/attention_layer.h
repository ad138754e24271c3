// AttentionLayer: q, k and v of the rows, turned and put into pages, attention over the pages, and
// the product back to the residual stream; and, where a step learns, back. Engine thread, or the
// thread that trains.
#pragma once

#include <cstdint>

#include "kernels/attention_backward/attention_backward.h"
#include "kernels/kv_rows/kv_rows.h"
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
  const float* back_sin = nullptr;     // of turns back; null: it only serves
};

// Rows with keys and values that become those of virtual tokens (KvRowsArgs). In a backward the
// tokens' gradients go back to the rows.
struct KvMemory {
  const KvRow* rows = nullptr;  // [num_rows], in the device's memory
  int32_t num_rows = 0;
  int64_t token_offset = 0;
};

// The gradient of what a layer's attention wrote, to what it read.
struct AttentionBack {
  AttentionKept kept;         // by Run
  const void* d_y = nullptr;  // [rows, hidden] of activations
  void* d_x = nullptr;        // [rows, hidden]; null: it is not asked for
  bool may_round = true;      // see Projection::BackCall
  // [sequences] or null: keys and values in front of each, and room for their gradients.
  const AttentionPrefix* prefixes = nullptr;
  KvMemory memory = {};
};

class AttentionLayer {
 public:
  // Borrows context and weights. `kv_layer`: the layer's place among those with keys and values.
  AttentionLayer(LayerContext& context, int32_t layer, int32_t kv_layer, const LayerSpec& spec,
                 const LayerWeights& weights, const RopeAngles& rope);

  // From x, [rows, hidden] of activations, to `target`. `kept`: for a backward, or null.
  void Run(const void* x, const ResidualTarget& target, const LayerStep& step,
           const AttentionKept* kept = nullptr) const;
  // See Projection::Back: also the gradients of o's LoRA. Those of the others take x as Run did.
  DType Back(const AttentionBack& back, const LayerStep& step) const;
  void AddGradients(const void* x, const LayerStep& step) const;
  // From the rows of a step that learns, behind Run.
  void TakeMemory(const KvMemory& memory, const AttentionKept& kept, const LayerStep& step) const;

 private:
  // Turns queries and keys in scratch.qkv, and attends to scratch.attended, or to `kept`.
  void Attend(const LayerStep& step, const AttentionKept* kept) const;
  // d_attended, of d_dtype, becomes that of queries, keys and values before they were turned.
  void AttendBack(const AttentionBack& back, DType d_dtype, const LayerStep& step) const;
  // Where a step learns: a piece may end, before attention that takes so much longer than a product
  // of as many FLOP.
  void BeforeAttention(double effort, const LayerStep& step) const;
  // A norm of each head of q or k, which the turning does too; null: there is none.
  const float* HeadNormOf(const Buffer& weight) const;
  // Where LayerSpec::qk_norm_across_heads. `kept` may be null, also below.
  void NormAcrossHeads(const LayerStep& step, const AttentionKept* kept) const;
  // The same of a rank, which has a part of the heads (LayerSpec::norms_among_ranks).
  void NormAmongRanks(const LayerStep& step) const;
  // Whether this is the first of the ranks that have its heads of keys.
  bool CountsKeys() const;
  // The gradients of normed queries and keys become those of what the norms read.
  void BackThroughNorms(const AttentionKept& kept, const LayerStep& step) const;
  // Normalises (where the model does) and turns q and k, and stores k and v in their pages.
  void PlaceKeysAndValues(const LayerStep& step, const AttentionKept* kept) const;
  void AttendPages(const LayerStep& step, void* out) const;
  KvRowsArgs ArgsOf(const KvMemory& memory, void* qkv) const;

  LayerContext& context_;
  const int32_t kv_layer_;
  const LayerSpec spec_;
  const LayerWeights& weights_;
  const RopeAngles rope_;
  const Projection qkv_;
  const Projection o_;
};

}  // namespace graft
