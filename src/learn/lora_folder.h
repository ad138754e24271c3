// The folder of a learned adapter: adapter_config.json and adapter_model.safetensors as PEFT reads
// them, and graft.json, which says where the adapter comes from. One thread.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "base/status.h"
#include "learn/trained_lora.h"
#include "model/config.h"
#include "tensor/dtype.h"

namespace graft {

inline constexpr int kGraftJsonFormat = 1;

// Writes the folder `path`, in place of what is there, once all of it is written. The numbers are
// in `dtype`, which the kernels of training multiplied with: what is served is what was trained.
// graft.json has, before the fields of `provenance`, its format and the content's hash, which is
// the one that a server knows the adapter by. Returns that hash.
Result<std::string> WriteLoraFolder(const std::string& path, const ModelConfig& config,
                                    TrainedLora& lora, DType dtype, const std::string& base_model,
                                    const OrderedJson& provenance);

}  // namespace graft
