// The numeric self-test of an adapter when it is loaded. It compares the kernels' low-rank path
// over the converted weights with a merged reference, which is computed in double from the file's
// own tensors and the config's ranks and scales. So a wrong layout, scale or transposition is
// caught before a client sees it. Any thread.
#pragma once

#include "base/status.h"
#include "model/config.h"
#include "model/lora_weights.h"
#include "model/peft_config.h"
#include "model/safetensors.h"

namespace graft {

// Tests every adapted module on one probe row and a few output columns. On a difference the error
// is kInternal and names the module and both values.
Status SelfTestLora(const SafetensorsFile& file, const PeftConfig& peft, const ModelConfig& model,
                    const LoraWeights& weights);

}  // namespace graft
