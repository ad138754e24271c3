// The folder of a learned adapter: adapter_config.json and adapter_model.safetensors as PEFT reads
// them, and graft.json, which says where the adapter comes from. What has virtual tokens is a
// bundle: such folders lora and prompt, of which one may be missing. One thread.
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

// Writes the folder `path`, in place of what is there, once all of it is written. The numbers are
// in `dtype`, keys and values in that of the pages, which the kernels of training computed with:
// what is served is what was trained. graft.json has, before the fields of `provenance`, its format
// and the content's hash, which is the one that a server knows the adapter by. Returns that hash.
Result<std::string> WriteLearnedFolder(const std::string& path, const ModelConfig& config,
                                       const LearnedAdapter& adapter, DType dtype,
                                       const std::string& base_model,
                                       const OrderedJson& provenance);

// Adds a field to the scores in the graft.json of such a folder. What an adapter is known by does
// not depend on them.
Status AddToScores(const std::string& path, const std::string& field, const OrderedJson& value);

}  // namespace graft
