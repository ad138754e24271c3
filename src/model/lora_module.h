// The names of a layer's projections that an adapter may change, and the projections of an HF
// checkpoint, which are these seven or stack some of them. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "layers/lora_targets.h"
#include "model/config.h"

namespace graft {

// "q_proj": of kDenseTargets.
std::string_view LoraModuleName(LoraModule module);

// A projection as the checkpoint has it: its name there, and the modules that its rows are, in
// order.
struct StoredProjection {
  std::string_view name;  // "qkv_proj"
  LoraModule first = LoraModule::kQ;
  int num_modules = 1;
  // Its rows are head by head, of each module a head; false: module by module.
  bool by_heads = false;
};

// Llama's, which most families have.
inline constexpr std::array<StoredProjection, kLoraModules> kProjectionsApart = {
    {{"q_proj", LoraModule::kQ},
     {"k_proj", LoraModule::kK},
     {"v_proj", LoraModule::kV},
     {"o_proj", LoraModule::kO},
     {"gate_proj", LoraModule::kGate},
     {"up_proj", LoraModule::kUp},
     {"down_proj", LoraModule::kDown}}};

// A layer's projections as checkpoints of the model's family have them, in the modules' order.
std::span<const StoredProjection> StoredProjections(const ModelConfig& config);
// The projection's name; where the layer has two of that name, with the block before it:
// "attn.c_proj".
std::string NameOfStored(const ModelConfig& config, const StoredProjection& projection);
// Whether some of them stack several modules.
bool HasFusedProjections(const ModelConfig& config);
// Whether the targets are those of kDenseTargets: q, k, v, o, gate, up and down.
bool HasDenseTargets(const ModelConfig& config);
// The stored projection that holds the module.
const StoredProjection& StoredProjectionOf(const ModelConfig& config, LoraModule module);

// "model.layers.3.self_attn.q_proj" (ModulePaths::layers, TargetSpec::block), or the path of the
// projection that holds the module: what PEFT's rules are matched against.
std::string LoraModulePath(const ModelConfig& config, int32_t layer, LoraModule module);

struct LoraModuleAddress {
  int32_t layer = 0;
  LoraModule module = LoraModule::kQ;  // the projection's first
};

// The inverse of LoraModulePath; empty where the path is none of ours.
std::optional<LoraModuleAddress> ParseLoraModulePath(const ModelConfig& config,
                                                     std::string_view path);

// The projection's weight is [out, in].
struct LoraModuleShape {
  int64_t in = 0;
  int64_t out = 0;
};
LoraModuleShape ShapeOfLoraModule(const ModelConfig& config, LoraModule module);
// The shape of all modules of the projection together.
LoraModuleShape ShapeOfStoredProjection(const ModelConfig& config,
                                        const StoredProjection& projection);

}  // namespace graft
