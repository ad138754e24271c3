// How the LoRA kernels are launched: what lora_cuda.cu chooses, and what the bench may choose
// otherwise to measure it.
#pragma once

#include <cstdint>

#include "kernels/lora/lora.h"

namespace graft::lora {

enum class Part { kShrink, kExpand, kBoth };

struct LaunchOptions {
  bool overlap = true;     // programmatic dependent launch
  int32_t depth = 0;       // groups in flight, 2 or 4; 0: chosen
  int32_t row_tiles = 0;   // rows of a pass in tiles of 8: 1, 2 or 4; 0: chosen
  int32_t row_splits = 0;  // blocks that share a segment's rows; 0: chosen
  int32_t add_in_l2 = -1;  // 0 or 1; -1: chosen
};

// bf16 alone. Part::kBoth needs a card with clusters.
void LaunchLora(Part part, const LoraArgs& args, const LaunchOptions& options, Stream& stream);

// fp32, for checking: right, not fast. Part::kShrink or Part::kExpand.
void LaunchLoraF32(Part part, const LoraArgs& args, Stream& stream);

}  // namespace graft::lora
