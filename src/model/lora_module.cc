#include "model/lora_module.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "model/family.h"
#include "model/wrapper.h"

namespace graft {
namespace {

constexpr std::string_view kModelPrefix = "model.";

}  // namespace

std::string_view LoraModuleName(LoraModule module) {
  return kDenseTargets[static_cast<size_t>(module)].name;
}

std::span<const StoredProjection> StoredProjections(const ModelConfig& config) {
  return FamilyOf(config.architecture).projections;
}

std::string NameOfStored(const ModelConfig& config, const StoredProjection& projection) {
  const auto namesakes =
      std::ranges::count(StoredProjections(config), projection.name, &StoredProjection::name);
  std::string name(projection.name);
  if (namesakes == 1) return name;
  return std::string(config.lora_target(projection.first).block) + name;
}

bool HasDenseTargets(const ModelConfig& config) {
  return config.lora_targets.data() == kDenseTargets.data();
}

bool HasFusedProjections(const ModelConfig& config) {
  return StoredProjections(config).size() < config.lora_targets.size();
}

ModelShape ShapeAsStored(const ModelConfig& config) {
  ModelShape shape = config;
  const std::span<const StoredProjection> stored = StoredProjections(config);
  if (HasFusedProjections(config)) {
    const bool stacks_qkv = stored.front().num_modules > 1;
    shape.lora_targets = stacks_qkv ? std::span<const TargetSpec>(kStackedTargets)
                                    : std::span<const TargetSpec>(kStackedMlpTargets);
  }
  CHECK_EQ(shape.lora_targets.size(), stored.size());
  return shape;
}

const StoredProjection& StoredProjectionOf(const ModelConfig& config, LoraModule module) {
  for (const StoredProjection& projection : StoredProjections(config)) {
    if (static_cast<int>(module) < static_cast<int>(projection.first) + projection.num_modules) {
      return projection;
    }
  }
  CHECK(false) << "no such module: " << static_cast<int>(module);
  __builtin_unreachable();
}

std::string LoraModulePath(const ModelConfig& config, int32_t layer, LoraModule module) {
  const ModulePaths& paths = FamilyOf(config.architecture).paths;
  if (config.is_head(layer)) return std::string(paths.head);
  std::string path(paths.layers);
  path += std::to_string(layer);
  path += '.';
  path += config.lora_target(module).block;
  path += StoredProjectionOf(config, module).name;
  return path;
}

std::string_view ModulePrefixOf(const ModelConfig& config) {
  return config.wrapper != nullptr ? config.wrapper->text_prefix : kModelPrefix;
}

std::string ClassModulePath(const ModelConfig& config, int32_t layer, LoraModule module,
                            std::string_view text_prefix) {
  const std::string path = LoraModulePath(config, layer, module);
  if (config.is_head(layer) || config.wrapper == nullptr) return path;
  if (text_prefix.empty()) text_prefix = ModulePrefixOf(config);
  return std::string(text_prefix) + path.substr(kModelPrefix.size());
}

std::optional<LoraModuleAddress> ParseLoraModulePath(const ModelConfig& config,
                                                     std::string_view path) {
  std::optional<std::string> of_text;
  if (config.wrapper != nullptr) {
    of_text = TextNameOf(path);
    if (!of_text.has_value()) return std::nullopt;
    path = *of_text;
  }
  const ModulePaths& paths = FamilyOf(config.architecture).paths;
  if (path == paths.head) return LoraModuleAddress{config.num_layers, LoraModule{}, true};
  if (!path.starts_with(paths.layers)) return std::nullopt;
  path.remove_prefix(paths.layers.size());
  int32_t layer = -1;
  const auto [end, error] = std::from_chars(path.data(), path.data() + path.size(), layer);
  if (error != std::errc() || layer < 0) return std::nullopt;
  const std::string_view digits = path.substr(0, static_cast<size_t>(end - path.data()));
  // One spelling per layer: "03" is not a name that a checkpoint uses.
  if (digits.front() == '-' || (digits.size() > 1 && digits.front() == '0')) return std::nullopt;
  path.remove_prefix(digits.size());
  if (path.empty() || path.front() != '.') return std::nullopt;
  path.remove_prefix(1);
  for (const StoredProjection& projection : StoredProjections(config)) {
    const std::string_view block = config.lora_target(projection.first).block;
    if (path.starts_with(block) && path.substr(block.size()) == projection.name) {
      return LoraModuleAddress{layer, projection.first};
    }
  }
  return std::nullopt;
}

LoraModuleShape ShapeOfLoraModule(const ModelConfig& config, LoraModule module) {
  const TargetSpec& target = config.lora_target(module);
  return {(config.*target.in)(), (config.*target.out)()};
}

LoraModuleShape ShapeOfLoraMatrix(const ModelConfig& config, int32_t layer, LoraModule module) {
  if (!config.is_head(layer)) return ShapeOfLoraModule(config, module);
  return {config.hidden(), config.head_block_size(module)};
}

LoraModule OwnerOfA(const ModelConfig& config, int32_t layer, LoraModule module) {
  return config.is_head(layer) ? LoraModule{} : StoredProjectionOf(config, module).first;
}

LoraModuleShape ShapeOfStoredWeight(const ModelConfig& config, int32_t layer, LoraModule module) {
  if (config.is_head(layer)) return {config.hidden(), config.num_head_words()};
  return ShapeOfStoredProjection(config, StoredProjectionOf(config, module));
}

int64_t RowInStoredWeight(const ModelConfig& config, int32_t layer, LoraModule module) {
  int64_t row = 0;
  for (int m = static_cast<int>(OwnerOfA(config, layer, module)); m < static_cast<int>(module);
       ++m) {
    row += ShapeOfLoraMatrix(config, layer, static_cast<LoraModule>(m)).out;
  }
  return row;
}

LoraModuleShape ShapeOfStoredProjection(const ModelConfig& config,
                                        const StoredProjection& projection) {
  LoraModuleShape shape = ShapeOfLoraModule(config, projection.first);
  for (int i = 1; i < projection.num_modules; ++i) {
    const auto module = static_cast<LoraModule>(static_cast<int>(projection.first) + i);
    shape.out += ShapeOfLoraModule(config, module).out;
  }
  return shape;
}

}  // namespace graft
