// Weighted sums of adapters in the host's memory: one adapter with all their ranks, and the virtual
// tokens of the one that has some. Pure functions; any thread.
#pragma once

#include <span>

#include "adapters/adapter_weights.h"
#include "adapters/host_adapter.h"
#include "base/status.h"
#include "model/config.h"

namespace graft {

struct HostAddend {
  const HostAdapter* adapter = nullptr;  // a whole one
  float weight = 1.0f;
};

// kInvalidArgument where no adapter would do what the sum asks for: the ranks are too many, an
// activated LoRA is not alone, virtual tokens are of two, or have a weight.
Result<AdapterWeights> AddAdapters(std::span<const HostAddend> addends, const ModelConfig& model,
                                   DType dtype);

}  // namespace graft
