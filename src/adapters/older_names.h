// Adapters that were trained by an earlier class of the same model, in which modules had other
// names: Phi's before HF had one. They are read as if they had today's. Pure functions; any thread.
#pragma once

#include <optional>
#include <string_view>

#include "adapters/peft_config.h"
#include "model/family.h"

namespace graft {

// Rows of one module after the other, of a layer.
struct OlderPath {
  int32_t layer = 0;
  LoraModule first = LoraModule::kQ;
  int num_modules = 1;
};

// What "transformer.h.3.mixer.Wqkv" is today; empty where the model's family has no such older
// name.
std::optional<OlderPath> ParseOlderPath(const ModelConfig& model, std::string_view path);

// The config with today's names of target_modules, rank_pattern and alpha_pattern in place of older
// ones: "Wqkv" becomes q_proj, k_proj and v_proj. Regexes stay as they are. Empty where the config
// has no older name.
std::optional<PeftConfig> WithoutOlderNames(const PeftConfig& config, const ModelConfig& model);

}  // namespace graft
