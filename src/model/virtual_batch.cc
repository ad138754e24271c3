#include "model/virtual_batch.h"

#include "kernels/virtual_embedding/virtual_embedding.h"
#include "kernels/virtual_kv/virtual_kv.h"

namespace graft {

void PlaceVirtualTokens(const DeviceBatch& batch, const ModelConfig& config, DType embeddings,
                        float* hidden, KvPool& pool, Stream& stream) {
  VirtualEmbedding({.table = batch.virtual_rows,
                    .dtype = embeddings,
                    .runs = batch.virtual_embeddings.data(),
                    .num_runs = static_cast<int32_t>(batch.virtual_embeddings.size()),
                    .run_tokens_max = batch.virtual_run_tokens_max,
                    .out = hidden,
                    .n = config.hidden_size},
                   stream);
  VirtualKv({.layout = pool.layout(),
             .pool = pool.data(),
             .table = batch.virtual_rows,
             .runs = batch.virtual_kv.data(),
             .num_runs = static_cast<int32_t>(batch.virtual_kv.size()),
             .run_tokens_max = batch.virtual_run_tokens_max,
             .pages = batch.pages.data()},
            stream);
}

}  // namespace graft
