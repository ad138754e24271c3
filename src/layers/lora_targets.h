// The seven projections of a layer that an adapter may change, in the order in which they stand
// everywhere (matrix tables, pages). Plain data.
#pragma once

#include <array>
#include <cstdint>

namespace graft {

enum class LoraModule : uint8_t { kQ, kK, kV, kO, kGate, kUp, kDown };

inline constexpr int kLoraModules = 7;
inline constexpr std::array<LoraModule, kLoraModules> kAllLoraModules = {
    LoraModule::kQ,    LoraModule::kK,  LoraModule::kV,   LoraModule::kO,
    LoraModule::kGate, LoraModule::kUp, LoraModule::kDown};

}  // namespace graft
