// The projections of a layer that an adapter may change: a family's list, in the order in which
// they stand in tables of matrices and in pages; behind all layers the head. Plain data.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace graft {

struct ModelShape;

// The dense products of a layer, in the order in which they run.
enum class LayerProduct : uint8_t { kQkv, kO, kGateUp, kDown };
inline constexpr int kLayerProducts = 4;

// A target is its place in the family's list. The names are those of kDenseTargets.
enum class LoraModule : uint8_t { kQ, kK, kV, kO, kGate, kUp, kDown };

// So many a layer at most, and their numbers.
inline constexpr int kLoraTargetsMax = 16;
// The head's B is cut into so many blocks of words at most, which have the numbers of a further
// layer's targets: a row of B^T for all words would not fit into a page, and ranks share the words.
inline constexpr int kHeadBlocksMax = 8;
inline constexpr std::array<LoraModule, kLoraTargetsMax> kLoraTargetNumbers = [] {
  std::array<LoraModule, kLoraTargetsMax> numbers = {};
  for (int i = 0; i < kLoraTargetsMax; ++i) numbers[i] = static_cast<LoraModule>(i);
  return numbers;
}();

struct TargetSpec {
  std::string_view name;   // "q_proj"
  std::string_view block;  // where HF's layer has it: "self_attn."
  LayerProduct product;    // computes it, as one of its slices; those of a product are neighbours
  // The projection's weight is [out, in].
  int64_t (ModelShape::*in)() const;
  int64_t (ModelShape::*out)() const;
};

// q, k, v, o, gate, up and down, which all families have today.
inline constexpr int kLoraModules = 7;
extern const std::array<TargetSpec, kLoraModules> kDenseTargets;
inline constexpr std::array<LoraModule, kLoraModules> kAllLoraModules = {
    LoraModule::kQ,    LoraModule::kK,  LoraModule::kV,   LoraModule::kO,
    LoraModule::kGate, LoraModule::kUp, LoraModule::kDown};

// The same as models have them that stack q, k and v, and gate and up (or have up alone).
extern const std::array<TargetSpec, kLayerProducts> kStackedTargets;
// And that stack gate and up.
extern const std::array<TargetSpec, 6> kStackedMlpTargets;

}  // namespace graft
