// mlx-lm's adapters: adapter_config.json with lora_parameters, and adapters.safetensors with
// lora_a [in, rank] and lora_b [rank, out]. They become the two files that PEFT writes of the same
// matrices, and are read as those from there on. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "adapters/peft_bytes.h"
#include "base/status.h"

namespace graft {

// Whether an adapter_config.json is mlx-lm's, which names no peft_type.
bool IsMlxConfig(std::string_view config);

// `label` stands for the file of weights in errors. kUnimplemented names what is not applied
// (DoRA, full weights, anything but lora_a and lora_b); kInvalidArgument what makes no sense.
Result<PeftBytes> PeftOfMlx(std::string_view config, FileBytes weights, const std::string& label);

}  // namespace graft
