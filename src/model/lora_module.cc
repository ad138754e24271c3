#include "model/lora_module.h"

#include <charconv>

#include "base/check.h"

namespace graft {
namespace {

constexpr std::string_view kLayersPrefix = "model.layers.";

// Below "model.layers.N.".
constexpr std::array<std::string_view, kLoraModules> kTails = {
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};

}  // namespace

std::string_view LoraModuleName(LoraModule module) {
  const std::string_view tail = kTails[static_cast<size_t>(module)];
  return tail.substr(tail.find('.') + 1);
}

std::string LoraModulePath(int32_t layer, LoraModule module) {
  std::string path(kLayersPrefix);
  path += std::to_string(layer);
  path += '.';
  path += kTails[static_cast<size_t>(module)];
  return path;
}

std::optional<LoraModuleAddress> ParseLoraModulePath(std::string_view path) {
  if (!path.starts_with(kLayersPrefix)) return std::nullopt;
  path.remove_prefix(kLayersPrefix.size());
  int32_t layer = -1;
  const auto [end, error] = std::from_chars(path.data(), path.data() + path.size(), layer);
  if (error != std::errc() || layer < 0) return std::nullopt;
  const std::string_view digits = path.substr(0, static_cast<size_t>(end - path.data()));
  // One spelling per layer: "03" is not a name that a checkpoint uses.
  if (digits.front() == '-' || (digits.size() > 1 && digits.front() == '0')) return std::nullopt;
  path.remove_prefix(digits.size());
  if (path.empty() || path.front() != '.') return std::nullopt;
  path.remove_prefix(1);
  for (const LoraModule module : kAllLoraModules) {
    if (path == kTails[static_cast<size_t>(module)]) return LoraModuleAddress{layer, module};
  }
  return std::nullopt;
}

LoraModuleShape ShapeOfLoraModule(const ModelConfig& config, LoraModule module) {
  switch (module) {
    case LoraModule::kQ:
      return {config.hidden_size, config.q_size()};
    case LoraModule::kK:
    case LoraModule::kV:
      return {config.hidden_size, config.kv_size()};
    case LoraModule::kO:
      return {config.q_size(), config.hidden_size};
    case LoraModule::kGate:
    case LoraModule::kUp:
      return {config.hidden_size, config.intermediate_size};
    case LoraModule::kDown:
      return {config.intermediate_size, config.hidden_size};
  }
  CHECK(false) << "no such module: " << static_cast<int>(module);
  __builtin_unreachable();
}

}  // namespace graft
