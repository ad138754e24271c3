// LayerGate: what a step waits for before a layer, where rows of its adapters are still on their
// way into the device's memory when the step begins. Engine thread only.
#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace graft {

class LayerGate {
 public:
  virtual ~LayerGate() = default;
  // Called before the layer's first kernel is launched: what `stream` is given from now on may read
  // the layer's rows of every adapter of the step.
  virtual void Await(int32_t layer, const Stream& stream) = 0;
};

}  // namespace graft
