// LoraBridge: computes adapters' share of a step while their rows are still on the way into the
// device's memory, layer by layer until the rows have arrived. The model does not know where it
// computes. Engine thread only.
#pragma once

#include <cstdint>

#include "kernels/lora/lora.h"
#include "layers/lora_targets.h"
#include "tensor/stream.h"

namespace graft {

class LoraBridge {
 public:
  virtual ~LoraBridge() = default;
  // Called before the layer's first kernel is launched. True: what the adapters under way add to
  // this layer comes from Begin and Finish; false: the device computes it, as it does for others.
  virtual bool TakesLayer(int32_t layer) = 0;
  // Before and behind the product of x with the weights of the modules from `first` on: their
  // slices lie side by side in y. `args` says where x and y are; it has no segments.
  virtual void Begin(int32_t layer, LoraModule first, const LoraArgs& args, Stream& stream) = 0;
  virtual void Finish(const LoraArgs& args, Stream& stream) = 0;
};

}  // namespace graft
