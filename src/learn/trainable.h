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
// The most tokens of a text that training makes a gradient of. Beyond them the model scales queries
// (RopeConfig::query_beta), which no backward knows of.
int32_t TrainableContext(const ModelConfig& config);

// kUnimplemented if weights are, or may be, codes: a gradient goes back through numbers.
Status CheckTrainableWeights(const ServedTypes& types);

}  // namespace graft
