#include "adapters/older_names.h"

#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "model/lora_module.h"

namespace graft {
namespace {

// Today's names of a module that is called otherwise today; empty: the name is none of these.
std::vector<std::string> NamesToday(const ModelConfig& model, std::string_view name) {
  for (const OlderModule& older : FamilyOf(model.architecture).older.modules) {
    const std::string with_block = std::string(older.block) + std::string(older.name);
    if (name != older.name && name != with_block) continue;
    std::vector<std::string> today;
    for (int i = 0; i < older.num_modules; ++i) {
      const auto module = static_cast<LoraModule>(static_cast<int>(older.first) + i);
      today.emplace_back(StoredProjectionOf(model, module).name);
    }
    if (today.size() == 1 && today[0] == older.name) return {};
    return today;
  }
  return {};
}

// Whether there was a name to change.
template <typename T>
bool RenameKeys(const ModelConfig& model, std::vector<std::pair<std::string, T>>* pattern) {
  bool renamed = false;
  std::vector<std::pair<std::string, T>> today;
  for (auto& [key, value] : *pattern) {
    const std::vector<std::string> names = NamesToday(model, key);
    renamed |= !names.empty();
    for (const std::string& name : names) today.emplace_back(name, value);
    if (names.empty()) today.emplace_back(std::move(key), value);
  }
  *pattern = std::move(today);
  return renamed;
}

}  // namespace

std::optional<OlderPath> ParseOlderPath(const ModelConfig& model, std::string_view path) {
  const OlderNames& older = FamilyOf(model.architecture).older;
  for (const OlderNames::Layers& layers : older.layers) {
    if (!path.starts_with(layers.path)) continue;
    const std::string_view rest = path.substr(layers.path.size());
    int32_t number = -1;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc() || number < layers.first) continue;
    for (const OlderModule& module : older.modules) {
      std::string wanted = std::to_string(number) + ".";
      wanted.append(module.block).append(module.name);
      if (rest != wanted) continue;
      return OlderPath{number - layers.first, module.first, module.num_modules};
    }
  }
  return std::nullopt;
}

std::optional<PeftConfig> WithoutOlderNames(const PeftConfig& config, const ModelConfig& model) {
  if (FamilyOf(model.architecture).older.modules.empty()) return std::nullopt;
  PeftConfig today = config;
  bool renamed = RenameKeys(model, &today.rank_pattern);
  renamed |= RenameKeys(model, &today.alpha_pattern);
  if (auto* const targets = std::get_if<ModuleNames>(&today.target_modules)) {
    std::vector<std::string> names;
    for (const std::string& name : targets->names) {
      const std::vector<std::string> of = NamesToday(model, name);
      renamed |= !of.empty();
      names.insert(names.end(), of.begin(), of.end());
      if (of.empty()) names.push_back(name);
    }
    targets->names = std::move(names);
  }
  if (!renamed) return std::nullopt;
  return today;
}

}  // namespace graft
