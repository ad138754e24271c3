// StepBridge: a LoraBridge as the executor sees it, which asks it before each step. Engine thread
// only.
#pragma once

#include <cstdint>

#include "layers/lora_bridge.h"
#include "model/forward_batch.h"

namespace graft {

class StepBridge : public LoraBridge {
 public:
  // Called before a step with adapters under way: if it can compute for them, it becomes the
  // batch's bridge and fills in the settled segments, which are those of all other adapters.
  virtual void Enter(HostBatch* batch) = 0;
  // How many layers of the step entered last it took.
  virtual int32_t num_layers_taken() const = 0;
};

}  // namespace graft
