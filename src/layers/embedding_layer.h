// EmbeddingLayer: the rows' embeddings into the residual stream, of tokens and of adapters' virtual
// tokens, and the keys and values that no row computes. Engine thread only.
#pragma once

#include "layers/layer_context.h"
#include "layers/layer_step.h"
#include "tensor/buffer.h"

namespace graft {

// The table, [words, hidden] of ServedTypes::embeddings.
struct EmbeddingTable {
  const Buffer& rows;
  int32_t first_word = 0;  // of this rank
  int32_t num_words = 0;
  float scale = 1.0f;  // of every row
  // Learned positions, [num_positions, hidden] of the same type, which are added to the rows; null:
  // there are none.
  const void* positions = nullptr;
  int32_t num_positions = 0;
};

class EmbeddingLayer {
 public:
  // Borrows both.
  EmbeddingLayer(LayerContext& context, const EmbeddingTable& table)
      : context_(context), table_(table) {}

  void Run(const LayerStep& step) const;
  // The tokens' rows alone, without virtual tokens, positions and ModelShape::hidden_scale: what an
  // adapter's virtual tokens stand in for.
  void RunTokens(const LayerStep& step) const;

 private:
  void PlaceVirtualTokens(const LayerStep& step) const;
  void AddPositions(const LayerStep& step) const;

  LayerContext& context_;
  const EmbeddingTable table_;
};

}  // namespace graft
