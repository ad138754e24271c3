// The virtual tokens of a step's adapters, brought to where a Transformer reads tokens of its own.
// Engine thread only.
#pragma once

#include "model/config.h"
#include "model/forward_batch.h"
#include "model/kv_pool.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

// Embeddings take their rows of `hidden`, fp32 [rows, hidden_size]; they are of dtype `embeddings`.
// Keys and values go into the pool.
void PlaceVirtualTokens(const DeviceBatch& batch, const ModelConfig& config, DType embeddings,
                        float* hidden, KvPool& pool, Stream& stream);

}  // namespace graft
