// QuantisationConfig: what config.json's quantization_config says of a checkpoint with weights of
// codes: which library's files they are, which modules have codes, and of which kind. It is read
// once and strictly: a field that is not known, or asks for what is not served, is refused by name.
// Plain data, any thread; ModuleSchemes one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/status.h"

namespace graft {

struct QuantisedFormat;

// The codes of one weight.
struct CodeScheme {
  int32_t bits = 4;
  int32_t group_size = 0;   // inputs that share a scale; 0: all of them
  bool symmetric = true;    // the zero point is the middle of the codes
  bool has_groups = false;  // a tensor says which group an input is in

  bool operator==(const CodeScheme&) const = default;
};

// Which modules have which scheme, or none.
struct ModuleRule {
  // In the order in which they come before each other.
  enum class Match : uint8_t {
    kName,       // the module's whole path
    kPathPart,   // the path, one above it, or its last part: "model.layers.3", "lm_head"
    kSubstring,  // anywhere in the path
    kRegex,      // Python's re.match
    kEvery,      // any module
  };
  Match match = Match::kEvery;
  std::string text;
  std::optional<CodeScheme> scheme;  // none: the module is left as it is, whatever others say

  bool operator==(const ModuleRule&) const = default;
};

struct QuantisationConfig {
  const QuantisedFormat* format = nullptr;
  std::string text;  // "NF4 of bitsandbytes", as the start says it
  std::vector<ModuleRule> rules;
  // GPTQ: files hold zero points less one (checkpoint_format gptq, not gptq_v2).
  bool zeros_less_one = false;
  std::vector<std::string> read_over;  // fields that change no weight and are not applied
};

// Reads quantization_config's value. kUnimplemented and kInvalidArgument name the field.
Result<QuantisationConfig> ParseQuantisation(const Json& json);

// The rules, compiled.
class ModuleSchemes {
 public:
  static Result<ModuleSchemes> Compile(const QuantisationConfig& config);
  ModuleSchemes(ModuleSchemes&&) noexcept;
  ModuleSchemes& operator=(ModuleSchemes&&) noexcept;
  ~ModuleSchemes();

  // The scheme of the module of that path ("model.layers.0.mlp.up_proj"); none: it has no codes.
  // kInvalidArgument where rules contradict each other.
  Result<std::optional<CodeScheme>> Of(const std::string& module) const {
    return Of(std::span(&module, 1));
  }
  // A module may have several names, and a rule means it by any of them. Errors say the first.
  Result<std::optional<CodeScheme>> Of(std::span<const std::string> names) const;

 private:
  struct Compiled;
  explicit ModuleSchemes(std::vector<Compiled> rules);
  std::vector<Compiled> rules_;
};

}  // namespace graft
