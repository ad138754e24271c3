// The seven projections of a layer that an adapter may change, in the order in which they stand
// everywhere (matrix tables, pages, files of ours), and their names in an HF checkpoint. Plain
// data.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/config.h"

namespace graft {

enum class LoraModule : uint8_t { kQ, kK, kV, kO, kGate, kUp, kDown };

inline constexpr int kLoraModules = 7;
inline constexpr std::array<LoraModule, kLoraModules> kAllLoraModules = {
    LoraModule::kQ,    LoraModule::kK,  LoraModule::kV,   LoraModule::kO,
    LoraModule::kGate, LoraModule::kUp, LoraModule::kDown};

// "q_proj".
std::string_view LoraModuleName(LoraModule module);

// "model.layers.3.self_attn.q_proj": the path that PEFT's rules are matched against.
std::string LoraModulePath(int32_t layer, LoraModule module);

struct LoraModuleAddress {
  int32_t layer = 0;
  LoraModule module = LoraModule::kQ;
};

// The inverse of LoraModulePath; empty where the path is none of ours.
std::optional<LoraModuleAddress> ParseLoraModulePath(std::string_view path);

// The projection's weight is [out, in].
struct LoraModuleShape {
  int64_t in = 0;
  int64_t out = 0;
};
LoraModuleShape ShapeOfLoraModule(const ModelConfig& config, LoraModule module);

}  // namespace graft
