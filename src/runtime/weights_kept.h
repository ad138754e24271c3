// The types that a base is served in, from what was asked for, its checkpoint and the device. Pure
// functions.
#pragma once

#include "base/status.h"
#include "layers/served_types.h"
#include "model/config.h"
#include "runtime/runtime_options.h"

namespace graft {

// Numbers of k that share a scale where weights become integers while they are read.
inline constexpr int64_t kIntegersOfScale = 128;

// TypesOf(dtype), and the weights as options.weights says. kInvalidArgument: codes are to be made
// of what are codes already, or are to be multiplied on a GPU otherwise than in bf16.
Result<ServedTypes> ChooseServedTypes(const RuntimeOptions& options, const ModelConfig& config,
                                      DType dtype, const Device& device);

// "int4 in groups of 128", "NF4 in groups of 64"; a plain format is its dtype's name.
std::string WeightFormatText(const WeightFormat& format);

// The same of a base: "NF4 of bitsandbytes" where the codes of its files are kept.
std::string ServedWeightsText(const ModelConfig& config, const ServedTypes& types);

}  // namespace graft
