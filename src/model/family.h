// ModelFamily: what sets one architecture of HF apart from all others, one file each in families/.
// It says which keys of config.json the architecture has and what HF's class takes for absent ones,
// which layers it makes of them, the names of its tensors, and which projections adapters may name.
// How a matrix is stacked and cut for ranks follows from the modules that its rows are (shard.h).
// Constants; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/config.h"
#include "model/config_fields.h"
#include "model/lora_module.h"

namespace graft {

// Which of attention's projections have a bias.
enum class AttentionBias : uint8_t {
  kNone,      // none, and a config that asks for them is refused
  kByConfig,  // q, k, v and o where attention_bias says so
  kQkv,       // q, k and v whatever the config says: HF has it in the class
  // q, k and v where attention_bias says so, or is absent.
  kQkvUnlessOff,
};

// A rope_type of config.json.
struct RopeType {
  std::string_view name;
  RopeScaling scaling;
};
struct RopeTypes {
  std::span<const RopeType> all;  // besides "default"
  std::string_view text;          // as errors list them
};
inline constexpr RopeType kCommonTypes[] = {{"linear", RopeScaling::kLinear},
                                            {"llama3", RopeScaling::kLlama3},
                                            {"yarn", RopeScaling::kYarn}};
inline constexpr RopeTypes kCommonRopeTypes = {kCommonTypes, "linear, llama3, yarn"};

// Names of a layer's norms below "model.layers.N.", without ".weight". A family leaves out those
// that its layers never have.
struct NormNames {
  std::string_view attention = "input_layernorm";
  std::string_view attention_output = "";
  std::string_view mlp = "post_attention_layernorm";
  std::string_view mlp_output = "";
  std::string_view q = "";
  std::string_view k = "";
};

struct ModelFamily {
  Architecture architecture;
  std::string_view name;        // HF's class
  std::string_view model_type;  // of config.json

  // For fields that are absent.
  int32_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  double rms_norm_epsilon = 1e-6;
  double rope_theta = 10000.0;
  bool tied_embeddings = false;

  AttentionBias attention_bias = AttentionBias::kByConfig;
  bool may_have_mlp_bias = false;   // mlp_bias
  bool may_rotate_in_part = false;  // partial_rotary_factor
  double rotary_share = 1.0;        // where that is absent
  bool norms_qk = false;            // LayerSpec::qk_norm, and a use_qk_norm that says so
  RopeTypes rope_types = kCommonRopeTypes;
  // What other families refuse (kFieldsNotComputed in config.cc) and this one reads.
  std::span<const std::string_view> own_fields = {};
  // Makes the layers and ropes of a config whose dimensions are known and whose layers are plain.
  Status (*read_layers)(const ConfigFields& fields, ModelConfig& config);

  std::span<const TargetSpec> lora_targets = kDenseTargets;
  // Whether PEFT knows what to target where an adapter does not say so: then q_proj and v_proj.
  bool has_peft_default = true;
  // As checkpoints store these targets.
  std::span<const StoredProjection> projections = kProjectionsApart;
  NormNames norms = {};
};

// In the order in which errors name them.
std::span<const ModelFamily* const> ModelFamilies();
const ModelFamily& FamilyOf(Architecture architecture);
// The names of those that have a property: "A, B and C".
std::string FamiliesThat(const std::function<bool(const ModelFamily&)>& have);

// One file each.
extern const ModelFamily kLlamaFamily;
extern const ModelFamily kMistralFamily;
extern const ModelFamily kQwen2Family;
extern const ModelFamily kQwen3Family;
extern const ModelFamily kGemmaFamily;
extern const ModelFamily kGemma2Family;
extern const ModelFamily kGemma3Family;
extern const ModelFamily kPhi3Family;
extern const ModelFamily kSmolLm3Family;
extern const ModelFamily kGraniteFamily;
extern const ModelFamily kOlmo2Family;
extern const ModelFamily kOlmo3Family;
extern const ModelFamily kExaone4Family;
extern const ModelFamily kGlmFamily;
extern const ModelFamily kGlm4Family;

}  // namespace graft
