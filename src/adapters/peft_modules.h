// Which of a model's projections an adapter config targets, and with which rank and scale, by
// PEFT's own rules. A target that names nothing the model has, or something that cannot be adapted
// here (lm_head, embed_tokens), is refused. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "adapters/peft_config.h"
#include "base/status.h"
#include "model/lora_module.h"

namespace graft {

struct LoraTarget {
  int32_t layer = 0;
  LoraModule module = LoraModule::kQ;
  int32_t rank = 0;    // [1, kLoraRankMax]
  float scale = 0.0f;  // alpha / rank, or alpha / sqrt(rank)
};

// Ascending by layer, then module; never empty. A projection that stacks modules makes a target of
// each, of one rank and scale. `text_prefix`: how the adapter's class begins the modules' paths
// (ClassModulePath).
Result<std::vector<LoraTarget>> ResolveLoraTargets(const PeftConfig& config,
                                                   const ModelConfig& model,
                                                   std::string_view text_prefix = "");

}  // namespace graft
