// adapter_config.json as PEFT writes it (0.3 to 0.21), read strictly: whatever would change what
// the model computes and is not applied here is refused with the key and its value, never ignored.
// Keys that matter to training alone are known and skipped; unknown keys are refused unless they
// are off (null, false or empty). Plain data, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace graft {

inline constexpr int32_t kPeftPatternKeysMax = 8192;   // of rank_pattern, or of alpha_pattern
inline constexpr int32_t kPeftNamesMax = 8192;         // of target_modules, or of exclude_modules
inline constexpr int32_t kInvocationTokensMax = 4096;  // of alora_invocation_tokens
inline constexpr int64_t kPeftConfigBytesMax = int64_t{4} << 20;

// How a set of modules is given: a list of names (a module's whole path, or its end after a dot),
// or one Python regex that the whole path matches.
struct ModuleNames {
  std::vector<std::string> names;
};
struct ModuleRegex {
  std::string pattern;
};
// "all-linear": every projection but the output layer.
struct AllLinear {};
// Not given: what PEFT takes for the architecture.
struct DefaultTargets {};

struct PeftConfig {
  std::string base_model;    // base_model_name_or_path, may be ""
  std::string peft_version;  // may be "": older versions do not write it

  int32_t rank = 0;    // [1, kLoraRankMax]
  double alpha = 0.0;  // finite; any sign, as PEFT
  bool rank_stabilized = false;
  // Says that the base's weights are [in, out], as GPT-2's are. PEFT goes by the base's layers,
  // whatever is said here; A and B are the same either way.
  bool fan_in_fan_out = false;
  // In the file's order: the first key that matches wins.
  std::vector<std::pair<std::string, int32_t>> rank_pattern;
  std::vector<std::pair<std::string, double>> alpha_pattern;

  std::variant<ModuleNames, ModuleRegex, AllLinear, DefaultTargets> target_modules;
  std::variant<ModuleNames, ModuleRegex> exclude_modules;  // no names: none
  std::vector<int64_t> layers_to_transform;                // empty: all
  std::vector<std::string> layers_pattern;                 // regexes; empty: any
  // The reader's, not the file's: names of target_modules that name nothing in the base are refused
  // in place of being skipped (--strict-targets).
  bool strict_targets = false;
  // Not the file's either: tensors of the weights that are copies of the base's own, as
  // CheckBaseCopies found them, and are left out.
  std::vector<std::string> base_copies;
  // An activated LoRA: acts from where these tokens stand last in the prompt. Empty: always.
  std::vector<int32_t> invocation_tokens;
};

// kInvalidArgument where the JSON or a value makes no sense, kUnimplemented where PEFT would
// compute something that this program does not. Both name the key and its value.
Result<PeftConfig> ParsePeftConfig(std::string_view text);

}  // namespace graft
