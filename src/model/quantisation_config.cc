#include "model/quantisation_config.h"

#include <algorithm>

#include "base/json.h"
#include "base/strings.h"
#include "model/config_fields.h"
#include "model/python_regex.h"
#include "model/quantised_format.h"

namespace graft {
namespace {

// Steps of one match of a regex; paths are short.
constexpr uint32_t kRegexStepsMax = 100000;

std::string SupportedFormats() {
  return Joined(QuantisedFormats(), ", ", [](const QuantisedFormat* format) {
    return std::string(format->name) + " (" + std::string(format->takes) + ")";
  });
}

bool IsPathPart(std::string_view part, std::string_view path) {
  if (path == part) return true;
  if (path.starts_with(part) && path[part.size()] == '.') return true;
  return path.ends_with(part) && path[path.size() - part.size() - 1] == '.';
}

}  // namespace

Result<QuantisationConfig> ParseQuantisation(const Json& json) {
  if (!json.is_object()) return InvalidArgumentError("quantization_config must be an object");
  const ConfigFields fields(json, "quantization_config.");
  ASSIGN_OR_RETURN(const std::string method, fields.String("quant_method", ""));
  if (method.empty()) return fields.Missing("quant_method");
  for (const QuantisedFormat* format : QuantisedFormats()) {
    if (format->name != method) continue;
    QuantisationConfig config;
    config.format = format;
    RETURN_IF_ERROR(format->read_config(json, fields, config));
    // A regex that does not compile is an error of the config, not of a tensor.
    RETURN_IF_ERROR(ModuleSchemes::Compile(config).status());
    return config;
  }
  return fields.Unsupported("quant_method", Json(method), SupportedFormats());
}

struct ModuleSchemes::Compiled {
  ModuleRule rule;
  std::optional<PythonRegex> regex;

  Result<bool> MatchesAny(std::span<const std::string> names) const {
    for (const std::string& name : names) {
      ASSIGN_OR_RETURN(const bool matches, Matches(name));
      if (matches) return true;
    }
    return false;
  }

 private:
  Result<bool> Matches(std::string_view module) const {
    switch (rule.match) {
      case ModuleRule::Match::kName:
        return module == rule.text;
      case ModuleRule::Match::kPathPart:
        return IsPathPart(rule.text, module);
      case ModuleRule::Match::kSubstring:
        return module.find(rule.text) != std::string_view::npos;
      case ModuleRule::Match::kRegex:
        return regex->PrefixMatch(module);
      case ModuleRule::Match::kEvery:
        return true;
    }
    __builtin_unreachable();
  }
};

ModuleSchemes::ModuleSchemes(std::vector<Compiled> rules) : rules_(std::move(rules)) {}
ModuleSchemes::ModuleSchemes(ModuleSchemes&&) noexcept = default;
ModuleSchemes& ModuleSchemes::operator=(ModuleSchemes&&) noexcept = default;
ModuleSchemes::~ModuleSchemes() = default;

Result<ModuleSchemes> ModuleSchemes::Compile(const QuantisationConfig& config) {
  std::vector<Compiled> rules;
  for (const ModuleRule& rule : config.rules) {
    rules.push_back({rule, std::nullopt});
    if (rule.match != ModuleRule::Match::kRegex) continue;
    Result<PythonRegex> regex = PythonRegex::Compile(rule.text, kRegexStepsMax);
    if (!regex.ok()) {
      return regex.status().WithContext("quantization_config names modules by '" + rule.text + "'");
    }
    rules.back().regex = std::move(*regex);
  }
  return ModuleSchemes(std::move(rules));
}

Result<std::optional<CodeScheme>> ModuleSchemes::Of(std::span<const std::string> names) const {
  const Compiled* chosen = nullptr;
  for (const Compiled& one : rules_) {
    ASSIGN_OR_RETURN(const bool matches, one.MatchesAny(names));
    if (!matches) continue;
    if (!one.rule.scheme.has_value()) return std::optional<CodeScheme>();
    if (chosen == nullptr || one.rule.match < chosen->rule.match) {
      chosen = &one;
    } else if (one.rule.match == chosen->rule.match && one.rule.scheme != chosen->rule.scheme) {
      return InvalidArgumentError("quantization_config has two schemes for " + names[0] + ": by '" +
                                  chosen->rule.text + "' and by '" + one.rule.text + "'");
    }
  }
  if (chosen == nullptr) return std::optional<CodeScheme>();
  return chosen->rule.scheme;
}

}  // namespace graft
