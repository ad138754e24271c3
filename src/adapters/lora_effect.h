// Whether an adapter's weights do anything. Pure function.
#pragma once

#include "adapters/lora_weights.h"

namespace graft {

// True: A, B or the scale is zero in every module as it is served, so that the base answers. So are
// adapters that were saved before they were trained, or by tools that lost their weights.
bool ChangesNothing(const LoraWeights& weights, const ModelConfig& model);

}  // namespace graft
