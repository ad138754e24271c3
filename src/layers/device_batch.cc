#include "layers/device_batch.h"

namespace graft {

std::span<const LoraSegment> DeviceBatch::SegmentsOf(LoraRows rows) const {
  switch (rows) {
    case LoraRows::kDrawn:
      return lora_segments;
    case LoraRows::kPrompts:
      return lora_prompt_segments;
    case LoraRows::kDrawnAndPrompts:
      return lora_all_segments;
    case LoraRows::kSettledDrawn:
      return settled_segments;
    case LoraRows::kSettledPrompts:
      return settled_prompt_segments;
  }
  return {};
}

}  // namespace graft
