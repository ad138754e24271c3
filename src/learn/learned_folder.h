// The folder of a learned adapter: adapter_config.json and adapter_model.safetensors as PEFT reads
// them, and graft.json, which says where the adapter comes from. An adapter with virtual tokens is
// a bundle: it has such folders called lora and prompt, of which one may be missing. One thread.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "base/status.h"
#include "learn/trained_lora.h"
#include "learn/trained_prompt.h"
#include "model/config.h"
#include "tensor/dtype.h"

namespace graft {

inline constexpr int kGraftJsonFormat = 1;

struct LearnedAdapter {
  TrainedLora* lora = nullptr;
  TrainedPrompt* prompt = nullptr;
};

// Writes the folder `path`, and replaces what is there once all of it is written. The numbers are
// in `dtype`, and keys and values in the pages' dtype. The kernels of training computed with these,
// so what is served is what was trained. graft.json begins with its format and the content's hash,
// by which a server knows the adapter; the fields of `provenance` follow. Returns that hash.
Result<std::string> WriteLearnedFolder(const std::string& path, const ModelConfig& config,
                                       const LearnedAdapter& adapter, DType dtype,
                                       const std::string& base_model,
                                       const OrderedJson& provenance);

// Adds a field to the scores in the folder's graft.json, which an adapter's hash does not cover.
Status AddToScores(const std::string& path, const std::string& field, const OrderedJson& value);

}  // namespace graft
