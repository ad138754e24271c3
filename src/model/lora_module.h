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
// The model's shape, with the projections as checkpoints store them for its targets.
ModelShape ShapeAsStored(const ModelConfig& config);
// The stored projection that holds the module.
const StoredProjection& StoredProjectionOf(const ModelConfig& config, LoraModule module);

// "model.layers.3.self_attn.q_proj" (ModulePaths::layers, TargetSpec::block), or the path of the
// projection that holds the module, as the family calls it. "lm_head" (ModulePaths::head) behind
// the last layer (ModelShape::is_head).
std::string LoraModulePath(const ModelConfig& config, int32_t layer, LoraModule module);
// The same as the model's class, and so PEFT, calls it: in a wrapper's text
// "model.language_model.layers.3.self_attn.q_proj". `text_prefix`: another of kTextPrefixes, as an
// adapter may have it of an older class; "": that of today's.
std::string ClassModulePath(const ModelConfig& config, int32_t layer, LoraModule module,
                            std::string_view text_prefix = "");
// What stands before "layers." in such a path where none is given.
std::string_view ModulePrefixOf(const ModelConfig& config);

struct LoraModuleAddress {
  int32_t layer = 0;
  LoraModule module = LoraModule::kQ;  // the projection's first
  bool is_head = false;                // then `layer` is the one behind the last
};

// The inverse of both; empty where the path is none of ours. All of kTextPrefixes are known in a
// wrapper's paths.
std::optional<LoraModuleAddress> ParseLoraModulePath(const ModelConfig& config,
                                                     std::string_view path);

// The projection's weight is [out, in].
struct LoraModuleShape {
  int64_t in = 0;
  int64_t out = 0;
};
LoraModuleShape ShapeOfLoraModule(const ModelConfig& config, LoraModule module);
// The same by the place in an adapter's table: a layer's module, or a block of the head.
LoraModuleShape ShapeOfLoraMatrix(const ModelConfig& config, int32_t layer, LoraModule module);
// The module that owns the rows of A which this one uses: the first one of the stored projection
// that holds it, or of the head.
LoraModule OwnerOfA(const ModelConfig& config, int32_t layer, LoraModule module);
// The weight of the checkpoint that holds it, and the row of that where it begins.
LoraModuleShape ShapeOfStoredWeight(const ModelConfig& config, int32_t layer, LoraModule module);
int64_t RowInStoredWeight(const ModelConfig& config, int32_t layer, LoraModule module);
// The shape of all modules of the projection together.
LoraModuleShape ShapeOfStoredProjection(const ModelConfig& config,
                                        const StoredProjection& projection);

}  // namespace graft
