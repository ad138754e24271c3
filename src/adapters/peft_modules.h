// Which of a model's projections an adapter config targets, and with which rank and scale, by
// PEFT's own rules. A name of target_modules that names nothing the model has is skipped, as PEFT
// does it, if another one names something. One that cannot be adapted here (embed_tokens) is
// refused. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/peft_config.h"
#include "base/status.h"
#include "model/lora_module.h"

namespace graft {

struct LoraTarget {
  int32_t layer = 0;  // ModelShape::is_head: a block of the head
  LoraModule module = LoraModule::kQ;
  int32_t rank = 0;    // [1, kLoraRankMax]
  float scale = 0.0f;  // alpha / rank, or alpha / sqrt(rank)
};

// Ascending by layer, then module; never empty. A projection that stacks modules makes a target of
// each, of one rank and scale, and the head one of each of its blocks. `text_prefix`: how the
// adapter's class begins the modules' paths (ClassModulePath). `has_older_names`: names of an
// earlier class mean modules of today's (older_names.h).
Result<std::vector<LoraTarget>> ResolveLoraTargets(const PeftConfig& config,
                                                   const ModelConfig& model,
                                                   std::string_view text_prefix = "",
                                                   bool has_older_names = true);

// What people are told of the names that ResolveLoraTargets skips, given the same; "": there are
// none.
std::string TellSkippedTargets(const PeftConfig& config, const ModelConfig& model,
                               std::string_view text_prefix = "", bool has_older_names = true);

}  // namespace graft
