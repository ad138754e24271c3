// How many tokens a page of the pool holds. KV and adapters use the same pages, so a page must have
// room for the longest row that an adapter of this model can have; otherwise such an adapter could
// never be served. Pure; any thread.
#pragma once

#include <cstdint>

#include "layers/served_types.h"
#include "model/config.h"

namespace graft {

// `tokens_asked`, or as many times twice that as it takes.
int32_t PageTokens(const ModelConfig& config, const ServedTypes& types, int32_t tokens_asked);

}  // namespace graft
