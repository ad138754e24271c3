// Which models training covers. Pure functions.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "layers/served_types.h"
#include "model/config.h"
#include "tensor/device.h"
#include "tensor/dtype.h"

namespace graft {

// kUnimplemented names what of the device training does not cover. The CPU trains every model that
// is served.
Status CheckTrainable(const Device& device);
// kUnimplemented names what of the model in this dtype a GPU does not train.
Status CheckTrainableOnGpu(const ModelConfig& config, DType dtype, const Device& device);
// kUnimplemented if weights are, or may be, codes: a gradient goes back through numbers.
Status CheckTrainableWeights(const ServedTypes& types);

}  // namespace graft
