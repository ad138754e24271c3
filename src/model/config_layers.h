// What config.json says of a model's layers: how far each attends, by which angles it turns, and
// what it norms, scales, caps and activates. Pure functions, any thread.
#pragma once

#include "base/status.h"
#include "model/config.h"
#include "model/config_fields.h"

namespace graft {

// Bounds of config.json's numbers that several readers need.
inline constexpr int64_t kConfigContextMax = int64_t{1} << 24;

// Fills config.layers, ropes, rotary_dim and what goes with them (embeddings' and logits' scales),
// from a config whose architecture and dimensions are known.
Status ReadLayers(const ConfigFields& fields, ModelConfig& config);

}  // namespace graft
