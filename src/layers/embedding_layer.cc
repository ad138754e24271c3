#include "layers/embedding_layer.h"

#include "kernels/embedding/embedding.h"
#include "kernels/scaled_add/scaled_add.h"
#include "kernels/virtual_embedding/virtual_embedding.h"
#include "kernels/virtual_kv/virtual_kv.h"

namespace graft {

void EmbeddingLayer::RunTokens(const LayerStep& step) const {
  StepExchanges& exchanges = context_.exchanges;
  const ResidualTarget target = {context_.scratch.hidden.as<float>(), false};
  const int64_t n = context_.shape.hidden_size;
  Embedding({.table = table_.rows.data(),
             .dtype = context_.types.embeddings,
             .vocab_size = table_.num_words,
             .tokens = exchanges.Begin(step.batch.tokens, step.stream),
             .out = exchanges.PartOf(target).y,
             .num_tokens = step.num_rows(),
             .n = n,
             .scale = table_.scale,
             .is_slice = exchanges.has_ranks(),
             .first_word = table_.first_word},
            step.stream);
  if (exchanges.has_ranks()) exchanges.Sum(step.num_rows() * n, target, step.stream);
}

void EmbeddingLayer::Run(const LayerStep& step) const {
  RunTokens(step);
  PlaceVirtualTokens(step);
  AddPositions(step);
  const float scale = context_.shape.hidden_scale;
  if (scale == 1.0f) return;
  float* const hidden = context_.scratch.hidden.as<float>();
  const int64_t n = step.num_rows() * context_.shape.hidden_size;
  ScaledAdd({.x = hidden, .y = hidden, .n = n, .scale = scale}, step.stream);
}

// Each of several ranks has the whole table, and the whole residual stream.
void EmbeddingLayer::AddPositions(const LayerStep& step) const {
  if (table_.positions == nullptr) return;
  Embedding({.table = table_.positions,
             .dtype = context_.types.embeddings,
             .vocab_size = table_.num_positions,
             .tokens = step.batch.positions.data(),
             .out = context_.scratch.hidden.as<float>(),
             .num_tokens = step.num_rows(),
             .n = context_.shape.hidden_size,
             .accumulate = true},
            step.stream);
}

void EmbeddingLayer::PlaceVirtualTokens(const LayerStep& step) const {
  const DeviceBatch& batch = step.batch;
  VirtualEmbedding({.table = batch.virtual_rows,
                    .dtype = context_.types.embeddings,
                    .runs = batch.virtual_embeddings.data(),
                    .num_runs = static_cast<int32_t>(batch.virtual_embeddings.size()),
                    .run_tokens_max = batch.virtual_run_tokens_max,
                    .out = context_.scratch.hidden.as<float>(),
                    .n = context_.shape.hidden_size},
                   step.stream);
  VirtualKv({.layout = context_.layout,
             .pool = context_.pool,
             .table = batch.virtual_rows,
             .runs = batch.virtual_kv.data(),
             .num_runs = static_cast<int32_t>(batch.virtual_kv.size()),
             .run_tokens_max = batch.virtual_run_tokens_max,
             .pages = batch.pages.data()},
            step.stream);
}

}  // namespace graft
