// The numeric self-test of an adapter at load: the kernels' low-rank path over the converted
// weights against a merged reference, computed in double from the file's own tensors and the
// config's own ranks and scales. Catches a wrong layout, scale or transposition before a client
// sees it. Any thread.
#pragma once

#include "base/status.h"
#include "model/config.h"
#include "model/lora_weights.h"
#include "model/peft_config.h"
#include "model/safetensors.h"

namespace graft {

// Every adapted module on one probe row, a few output columns of each. kInternal names the module
// and both values.
Status SelfTestLora(const SafetensorsFile& file, const PeftConfig& peft, const ModelConfig& model,
                    const LoraWeights& weights);

}  // namespace graft
