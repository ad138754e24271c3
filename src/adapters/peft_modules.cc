#include "adapters/peft_modules.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "adapters/older_names.h"
#include "base/strings.h"
#include "model/family.h"
#include "model/python_regex.h"

namespace graft {
namespace {

// PEFT would adapt these, too; a batch of adapters that share one embedding cannot.
std::vector<std::string> UnservedModules(const ModelConfig& model, std::string_view text_prefix) {
  if (model.wrapper != nullptr) return {std::string(text_prefix) + "embed_tokens"};
  const ModulePaths& paths = FamilyOf(model.architecture).paths;
  std::vector<std::string> unserved = {std::string(paths.embedding)};
  if (!paths.positions.empty()) unserved.emplace_back(paths.positions);
  return unserved;
}

// A hostile config's matches together cost about this many steps (well under a second), or the
// least that honest patterns need where there are many: hence the limit on their number.
constexpr uint64_t kStepsTotal = 30'000'000;
constexpr size_t kRegexesMax = 128;  // of a rank_pattern, an alpha_pattern or a layers_pattern

Status TooManyRegexes(std::string_view key) {
  return InvalidArgumentError("\"" + std::string(key) + "\" has more than " +
                              std::to_string(kRegexesMax) + " regexes");
}

uint32_t StepsPerMatch(uint64_t num_matches) {
  // A path is some 40 bytes: honest patterns need hundreds of steps.
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(kStepsTotal / std::max<uint64_t>(num_matches, 1), 2000, 1'000'000));
}

bool IsPathOrSuffix(std::string_view path, std::string_view name) {
  if (path == name) return true;
  return path.size() > name.size() && path.ends_with(name) &&
         path[path.size() - name.size() - 1] == '.';
}

bool AnyNameMatches(const std::vector<std::string>& names, std::string_view path) {
  return std::any_of(names.begin(), names.end(),
                     [path](const std::string& name) { return IsPathOrSuffix(path, name); });
}

// A set of module paths: names or a regex, compiled.
class ModuleSet {
 public:
  static Result<ModuleSet> Make(const ModelConfig&, const ModuleNames& names, uint64_t) {
    ModuleSet set;
    set.names_ = names.names;
    return set;
  }
  static Result<ModuleSet> Make(const ModelConfig&, const ModuleRegex& regex, uint64_t num_paths) {
    ModuleSet set;
    ASSIGN_OR_RETURN(set.regex_, PythonRegex::Compile(regex.pattern, StepsPerMatch(num_paths)));
    return set;
  }
  static Result<ModuleSet> Make(const ModelConfig& model, const AllLinear&, uint64_t) {
    ModuleSet set;
    set.all_of_ = &model;
    return set;
  }
  static Result<ModuleSet> Make(const ModelConfig& model, const DefaultTargets&, uint64_t) {
    if (model.wrapper != nullptr || !FamilyOf(model.architecture).has_peft_default) {
      return InvalidArgumentError("is not given, and PEFT has no default for " +
                                  std::string(ClassNameOf(model)));
    }
    ModuleSet set;
    for (const std::string_view name : FamilyOf(model.architecture).peft_default) {
      set.names_.emplace_back(name);
    }
    return set;
  }

  Result<bool> Contains(std::string_view path) const {
    if (regex_.has_value()) return regex_->FullMatch(path);
    if (all_of_ != nullptr) {
      const std::optional<LoraModuleAddress> address = ParseLoraModulePath(*all_of_, path);
      return address.has_value() && !address->is_head;
    }
    return AnyNameMatches(names_, path);
  }

 private:
  const ModelConfig* all_of_ = nullptr;  // every projection of this model
  std::vector<std::string> names_;
  std::optional<PythonRegex> regex_;
};

// One key of rank_pattern or alpha_pattern: re.match of `(.*\.)?(key)$`. Most keys are plain paths
// or their ends, one per module (EVA writes hundreds): those are compared without a regex.
class PatternKey {
 public:
  static Result<PatternKey> Make(const std::string& key, uint64_t num_matches) {
    PatternKey made;
    if (made.ReadPlain(key)) return made;
    ASSIGN_OR_RETURN(made.regex_,
                     PythonRegex::Compile("(.*\\.)?(" + key + ")$", StepsPerMatch(num_matches)));
    return made;
  }

  bool is_regex() const { return regex_.has_value(); }

  Result<bool> Matches(std::string_view path) const {
    if (regex_.has_value()) return regex_->PrefixMatch(path);
    if (path.size() < plain_.size()) return false;
    const size_t begin = path.size() - plain_.size();
    if (begin > 0 && path[begin - 1] != '.') return false;
    for (size_t i = 0; i < plain_.size(); ++i) {
      if (plain_[i] != kAnyCharacter && plain_[i] != path[begin + i]) return false;
    }
    return true;
  }

 private:
  static constexpr char kAnyCharacter = '\0';

  // True for names, dots (which match any character) and escaped dots alone.
  bool ReadPlain(std::string_view key) {
    for (size_t i = 0; i < key.size(); ++i) {
      const char c = key[i];
      if (IsAsciiAlnum(c) || c == '_') {
        plain_ += c;
      } else if (c == '.') {
        plain_ += kAnyCharacter;
      } else if (c == '\\' && i + 1 < key.size() && key[i + 1] == '.') {
        plain_ += '.';
        ++i;
      } else {
        return false;
      }
    }
    return true;
  }

  std::string plain_;
  std::optional<PythonRegex> regex_;
};

// rank_pattern or alpha_pattern: the first key that matches wins.
template <typename T>
class PatternTable {
 public:
  static Result<PatternTable> Make(std::string_view name,
                                   const std::vector<std::pair<std::string, T>>& pattern,
                                   uint64_t num_paths) {
    PatternTable table;
    table.name_ = name;
    size_t num_regexes = 0;
    for (const auto& [key, value] : pattern) {
      Result<PatternKey> made = PatternKey::Make(key, num_paths * pattern.size());
      if (!made.ok()) return made.status().WithContext(table.Where(key));
      num_regexes += made->is_regex();
      if (num_regexes > kRegexesMax) return TooManyRegexes(name);
      table.rows_.push_back({std::move(made).value(), key, value});
    }
    return table;
  }

  Result<T> Find(std::string_view path, T otherwise) const {
    for (const Row& row : rows_) {
      const Result<bool> matches = row.match.Matches(path);
      if (!matches.ok()) return matches.status().WithContext(Where(row.key));
      if (*matches) return row.value;
    }
    return otherwise;
  }

 private:
  struct Row {
    PatternKey match;
    std::string key;
    T value;
  };
  std::string Where(const std::string& key) const {
    return "\"" + std::string(name_) + "\" key \"" + key + "\"";
  }
  std::string_view name_;
  std::vector<Row> rows_;
};

// layers_to_transform: PEFT's reading of a layer index out of a path.
class LayerFilter {
 public:
  static Result<LayerFilter> Make(const PeftConfig& config, uint64_t num_paths) {
    LayerFilter filter;
    filter.layers_ = config.layers_to_transform;
    std::sort(filter.layers_.begin(), filter.layers_.end());
    if (config.layers_pattern.size() > kRegexesMax) return TooManyRegexes("layers_pattern");
    const uint32_t steps = StepsPerMatch(num_paths * config.layers_pattern.size());
    for (const std::string& pattern : config.layers_pattern) {
      Result<PythonRegex> regex =
          PythonRegex::Compile("(?:^|.*?\\.)" + pattern + "\\.(?P<idx>\\d+)\\.", steps);
      if (!regex.ok()) return regex.status().WithContext("\"layers_pattern\"");
      filter.patterns_.push_back(std::move(regex).value());
    }
    return filter;
  }

  Result<bool> Keeps(std::string_view path, int32_t layer) const {
    if (layers_.empty()) return true;
    if (patterns_.empty()) return Has(layer);
    for (const PythonRegex& pattern : patterns_) {
      const Result<bool> matches = pattern.PrefixMatch(path);
      if (!matches.ok()) return matches.status().WithContext("\"layers_pattern\"");
      if (!*matches) continue;
      const std::optional<std::string_view> text = pattern.Group("idx", path);
      // As PEFT: a match that found no index (an alternative without one) keeps no layer.
      if (!text.has_value()) return false;
      int64_t found = 0;
      const auto parsed = std::from_chars(text->data(), text->data() + text->size(), found);
      return parsed.ec == std::errc() && Has(found);
    }
    return false;
  }

 private:
  bool Has(int64_t layer) const {
    return std::binary_search(layers_.begin(), layers_.end(), layer);
  }

  std::vector<int64_t> layers_;
  std::vector<PythonRegex> patterns_;
};

// "q_proj, k_proj, ... and down_proj".
std::string ProjectionNames(const ModelConfig& model) {
  std::string names;
  const std::span<const StoredProjection> all = StoredProjections(model);
  for (const StoredProjection& projection : all) {
    if (!names.empty()) names += &projection == &all.back() ? " and " : ", ";
    names += NameOfStored(model, projection);
  }
  return names;
}

// The names of target_modules that name nothing in the model.
std::vector<std::string> NamesWithoutModule(const ModuleNames& targets, const ModelConfig& model,
                                            std::string_view text_prefix) {
  std::vector<std::string> paths;
  for (int32_t layer = 0; layer < model.num_layers; ++layer) {
    for (const StoredProjection& projection : StoredProjections(model)) {
      paths.push_back(ClassModulePath(model, layer, projection.first, text_prefix));
    }
  }
  paths.push_back(LoraModulePath(model, model.num_layers, LoraModule{}));
  std::vector<std::string> without;
  for (const std::string& name : targets.names) {
    const auto names_path = [&](std::string_view path) { return IsPathOrSuffix(path, name); };
    if (std::none_of(paths.begin(), paths.end(), names_path)) without.push_back(name);
  }
  return without;
}

// PEFT skips a name that no module has as long as another one has. What belongs to it in the file
// of weights is an error of its own, so that nothing that was trained is left out.
Status CheckNames(const PeftConfig& config, const ModuleNames& targets, const ModelConfig& model,
                  std::string_view text_prefix) {
  for (const std::string& name : targets.names) {
    const auto names_path = [&](std::string_view path) { return IsPathOrSuffix(path, name); };
    if (std::ranges::any_of(UnservedModules(model, text_prefix), names_path)) {
      return UnimplementedError("\"target_modules\" names \"" + name +
                                "\", which is not adapted here: only the projections of a layer (" +
                                ProjectionNames(model) + ") and the head are");
    }
  }
  const std::vector<std::string> without = NamesWithoutModule(targets, model, text_prefix);
  // In a wrapper a name may be that of a tower's module, of which the file must have no tensor.
  const bool may_skip = model.wrapper != nullptr || without.size() < targets.names.size();
  if (without.empty() || (may_skip && !config.strict_targets)) return OkStatus();
  return InvalidArgumentError(
      "\"target_modules\" names \"" + without.front() + "\", but this model's layers 0 to " +
      std::to_string(model.num_layers - 1) + " have " + ProjectionNames(model) +
      " only, and its head is " + LoraModulePath(model, model.num_layers, LoraModule{}));
}

// A name of a file as people are shown it: not too long, and whole characters.
std::string ShownName(const std::string& name) {
  constexpr size_t kShownMax = 64;
  if (name.size() <= kShownMax) return '"' + name + '"';
  size_t end = kShownMax;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return '"' + name.substr(0, end) + "...\"";
}

// All rules of a config, compiled.
class TargetRules {
 public:
  static Result<TargetRules> Make(const PeftConfig& config, const ModelConfig& model) {
    const uint64_t num_paths = static_cast<uint64_t>(model.num_lora_matrices());
    TargetRules rules;
    rules.config_ = &config;
    const auto make_set = [&](const auto& set) { return ModuleSet::Make(model, set, num_paths); };
    Result<ModuleSet> targets = std::visit(make_set, config.target_modules);
    if (!targets.ok()) return targets.status().WithContext("\"target_modules\"");
    rules.targets_ = std::move(targets).value();
    Result<ModuleSet> excluded = std::visit(make_set, config.exclude_modules);
    if (!excluded.ok()) return excluded.status().WithContext("\"exclude_modules\"");
    rules.excluded_ = std::move(excluded).value();
    ASSIGN_OR_RETURN(rules.layers_, LayerFilter::Make(config, num_paths));
    ASSIGN_OR_RETURN(rules.ranks_,
                     PatternTable<int32_t>::Make("rank_pattern", config.rank_pattern, num_paths));
    ASSIGN_OR_RETURN(rules.alphas_,
                     PatternTable<double>::Make("alpha_pattern", config.alpha_pattern, num_paths));
    return rules;
  }

  // Before layers_to_transform.
  Result<bool> Targets(std::string_view path) const {
    const Result<bool> excluded = excluded_.Contains(path);
    if (!excluded.ok()) return excluded.status().WithContext("\"exclude_modules\"");
    if (*excluded) return false;
    const Result<bool> targeted = targets_.Contains(path);
    if (!targeted.ok()) return targeted.status().WithContext("\"target_modules\"");
    return targeted;
  }

  Result<bool> KeepsLayer(std::string_view path, int32_t layer) const {
    // As PEFT: a module that the list names by its whole path is taken whatever its layer.
    const auto* const names = std::get_if<ModuleNames>(&config_->target_modules);
    const bool by_whole_path =
        names != nullptr &&
        std::find(names->names.begin(), names->names.end(), path) != names->names.end();
    if (by_whole_path) return true;
    return layers_.Keeps(path, layer);
  }

  Result<LoraTarget> MakeTarget(std::string_view path, LoraModuleAddress address) const {
    ASSIGN_OR_RETURN(const int32_t rank, ranks_.Find(path, config_->rank));
    ASSIGN_OR_RETURN(const double alpha, alphas_.Find(path, config_->alpha));
    const double divisor = config_->rank_stabilized ? std::sqrt(static_cast<double>(rank)) : rank;
    const auto scale = static_cast<float>(alpha / divisor);
    if (!std::isfinite(scale)) {
      return InvalidArgumentError("\"lora_alpha\" gives " + std::string(path) +
                                  " a scale that is not finite");
    }
    return LoraTarget{address.layer, address.module, rank, scale};
  }

 private:
  const PeftConfig* config_ = nullptr;
  ModuleSet targets_;
  ModuleSet excluded_;
  LayerFilter layers_;
  PatternTable<int32_t> ranks_;
  PatternTable<double> alphas_;
};

Status CheckUnserved(const TargetRules& rules, const ModelConfig& model,
                     std::string_view text_prefix) {
  for (const std::string& path : UnservedModules(model, text_prefix)) {
    ASSIGN_OR_RETURN(const bool targeted, rules.Targets(path));
    if (targeted) {
      return UnimplementedError("\"target_modules\" matches \"" + std::string(path) +
                                "\", which is not adapted here");
    }
  }
  return OkStatus();
}

// The head, of which each block is a target. It is in no layer, so that layers_to_transform leaves
// it out unless it is named.
Status AddHead(const TargetRules& rules, const ModelConfig& model,
               std::vector<LoraTarget>* targets) {
  const std::string path = LoraModulePath(model, model.num_layers, LoraModule{});
  ASSIGN_OR_RETURN(const bool targeted, rules.Targets(path));
  if (!targeted) return OkStatus();
  ASSIGN_OR_RETURN(const bool kept, rules.KeepsLayer(path, -1));
  if (!kept) return OkStatus();
  ASSIGN_OR_RETURN(LoraTarget target, rules.MakeTarget(path, {model.num_layers, LoraModule{}}));
  for (const LoraModule block : model.head_blocks()) {
    target.module = block;
    targets->push_back(target);
  }
  return OkStatus();
}

// Why a config that asks for something adapts nothing.
Status NoTargetError(const PeftConfig& config, int32_t num_layers) {
  std::string outside;
  for (const int64_t layer : config.layers_to_transform) {
    if (layer < 0 || layer >= num_layers) outside += " " + std::to_string(layer);
    if (outside.size() > 80) break;
  }
  if (!outside.empty()) {
    return InvalidArgumentError(
        "\"layers_to_transform\" names" + outside + ", but this model has layers 0 to " +
        std::to_string(num_layers - 1) + " only, and no projection is adapted");
  }
  return InvalidArgumentError(
      "\"target_modules\" (with exclude_modules and layers_to_transform) matches no projection of "
      "this model's " +
      std::to_string(num_layers) + " layers, and not its head");
}

}  // namespace

Result<std::vector<LoraTarget>> ResolveLoraTargets(const PeftConfig& config,
                                                   const ModelConfig& model,
                                                   std::string_view text_prefix,
                                                   bool has_older_names) {
  CHECK_GT(model.num_layers, 0);
  if (text_prefix.empty()) text_prefix = ModulePrefixOf(model);
  if (has_older_names) {
    const std::optional<PeftConfig> today = WithoutOlderNames(config, model);
    return ResolveLoraTargets(today.value_or(config), model, text_prefix, false);
  }
  if (const auto* const names = std::get_if<ModuleNames>(&config.target_modules)) {
    RETURN_IF_ERROR(CheckNames(config, *names, model, text_prefix));
  }
  ASSIGN_OR_RETURN(const TargetRules rules, TargetRules::Make(config, model));
  RETURN_IF_ERROR(CheckUnserved(rules, model, text_prefix));
  std::vector<LoraTarget> targets;
  for (int32_t layer = 0; layer < model.num_layers; ++layer) {
    for (const StoredProjection& projection : StoredProjections(model)) {
      const std::string path = ClassModulePath(model, layer, projection.first, text_prefix);
      ASSIGN_OR_RETURN(const bool targeted, rules.Targets(path));
      if (!targeted) continue;
      ASSIGN_OR_RETURN(const bool kept, rules.KeepsLayer(path, layer));
      if (!kept) continue;
      ASSIGN_OR_RETURN(LoraTarget target, rules.MakeTarget(path, {layer, projection.first}));
      for (int i = 0; i < projection.num_modules; ++i) {
        target.module = static_cast<LoraModule>(static_cast<int>(projection.first) + i);
        targets.push_back(target);
      }
    }
  }
  RETURN_IF_ERROR(AddHead(rules, model, &targets));
  if (targets.empty()) return NoTargetError(config, model.num_layers);
  return targets;
}

std::string TellSkippedTargets(const PeftConfig& config, const ModelConfig& model,
                               std::string_view text_prefix, bool has_older_names) {
  constexpr size_t kNamesShownMax = 8;
  if (text_prefix.empty()) text_prefix = ModulePrefixOf(model);
  if (has_older_names) {
    const std::optional<PeftConfig> today = WithoutOlderNames(config, model);
    return TellSkippedTargets(today.value_or(config), model, text_prefix, false);
  }
  const auto* const targets = std::get_if<ModuleNames>(&config.target_modules);
  if (targets == nullptr) return "";
  const std::vector<std::string> skipped = NamesWithoutModule(*targets, model, text_prefix);
  if (skipped.empty()) return "";
  std::string text = "target_modules names ";
  for (size_t i = 0; i < std::min(skipped.size(), kNamesShownMax); ++i) {
    text += (i > 0 ? ", " : "") + ShownName(skipped[i]);
  }
  if (skipped.size() > kNamesShownMax) {
    text += " and " + std::to_string(skipped.size() - kNamesShownMax) + " more";
  }
  // A wrapper's tower may have them.
  if (model.wrapper != nullptr) return text + ", which this model's text does not have: skipped";
  return text + ", which this model does not have: skipped, as PEFT does it";
}

}  // namespace graft
