// Adapters with random weights for benchmarks, made in memory as PEFT would write them and read by
// the same loader as real ones. Main thread.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "model/config.h"
#include "model/lora_weights.h"

namespace graft {

// All seven modules of every layer at `rank`.
Result<LoraWeights> MakeSyntheticAdapter(const ModelConfig& model, int32_t rank, DType dtype,
                                         uint64_t seed);

}  // namespace graft
