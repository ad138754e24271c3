// How many tokens a page of the pool holds. Pages are KV's and adapters' alike, so a page must have
// room for the longest row that an adapter of this model can have: one that has not could never be
// served. Pure; any thread.
#pragma once

#include <cstdint>

#include "model/config.h"
#include "tensor/dtype.h"

namespace graft {

// `tokens_asked`, or as many times twice that as it takes. `weights` is the adapters' dtype, too.
int32_t PageTokens(const ModelConfig& config, DType weights, DType kv, int32_t tokens_asked);

}  // namespace graft
