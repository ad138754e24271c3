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
  kAsLayers,  // as read_layers sets ModelConfig's, which is where HF's class has it otherwise
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

// Keys of config.json.
struct DimensionNames {
  std::string_view hidden = "hidden_size";
  std::string_view intermediate = "intermediate_size";
  std::string_view layers = "num_hidden_layers";
  std::string_view heads = "num_attention_heads";
  std::string_view context = "max_position_embeddings";
  std::string_view norm_epsilon = "rms_norm_eps";
};

// Where HF's class has its parts: the names of tensors without ".weight", and what PEFT's names
// begin with.
struct ModulePaths {
  std::string_view layers = "model.layers.";
  std::string_view embedding = "model.embed_tokens";
  std::string_view positions = "";  // learned ones
  std::string_view final_norm = "model.norm";
  std::string_view head = "lm_head";
  // What all but the head begin with, if there are files that leave it out: those of the class
  // without a head, which HF reads, too. "": none are read.
  std::string_view left_out = "";
};

// Names of a layer's norms below ModulePaths::layers and its number, without ".weight". A family
// leaves out those that its layers never have.
struct NormNames {
  std::string_view attention = "input_layernorm";
  std::string_view attention_output = "";
  std::string_view mlp = "post_attention_layernorm";
  std::string_view mlp_output = "";
  std::string_view q = "";
  std::string_view k = "";
};

// A module of an earlier class of the same model: its rows are those of one target of today after
// the other.
struct OlderModule {
  std::string_view name;   // "Wqkv"
  std::string_view block;  // "mixer."
  LoraModule first = LoraModule::kQ;
  int num_modules = 1;
};
// Names of such a class, which adapters that it trained have.
struct OlderNames {
  struct Layers {
    std::string_view path;  // "transformer.h."
    int32_t first = 0;      // number of the first layer
  };
  std::span<const Layers> layers = {};
  std::span<const OlderModule> modules = {};
};

inline constexpr std::string_view kPeftDefault[] = {"q_proj", "v_proj"};

struct ModelFamily {
  Architecture architecture;
  std::string_view name;        // HF's class
  std::string_view model_type;  // of config.json

  // For fields that are absent.
  int32_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  double rms_norm_epsilon = 1e-6;
  double rope_theta = 10000.0;
  double rotary_factor = 1.0;  // where may_rotate_in_part
  int32_t mlp_ratio = 0;       // of intermediate_size to hidden_size; 0: it must be there
  bool tied_embeddings = false;

  DimensionNames dimensions = {};
  std::string_view older_rope_theta = "";     // other names of rope_theta
  std::string_view older_rotary_factor = "";  // and of partial_rotary_factor
  AttentionBias attention_bias = AttentionBias::kByConfig;
  bool may_have_mlp_bias = false;   // mlp_bias
  bool may_rotate_in_part = false;  // partial_rotary_factor
  bool may_scale_queries = false;   // llama_4_scaling_beta
  bool norms_qk = false;            // LayerSpec::qk_norm, and a use_qk_norm that says so
  RopeTypes rope_types = kCommonRopeTypes;
  // What other families refuse (kFieldsNotComputed in config.cc) and this one reads.
  std::span<const std::string_view> own_fields = {};
  // Makes the layers and ropes of a config that has its dimensions and, so far, plain layers.
  Status (*read_layers)(const ConfigFields& fields, ModelConfig& config);

  std::span<const TargetSpec> lora_targets = kDenseTargets;
  // Whether PEFT knows what to target where an adapter does not say so: then these.
  bool has_peft_default = true;
  std::span<const std::string_view> peft_default = kPeftDefault;
  // As checkpoints store these targets.
  std::span<const StoredProjection> projections = kProjectionsApart;
  NormNames norms = {};
  ModulePaths paths = {};
  OlderNames older = {};
  bool transposes_weights = false;  // its projections' are stored [in, out]: HF's Conv1D
  // How names of tensors end that files have and nothing computes with: masks.
  std::span<const std::string_view> unread_endings = {};
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
extern const ModelFamily kMinistral3Family;
extern const ModelFamily kGpt2Family;
extern const ModelFamily kGptNeoFamily;
extern const ModelFamily kGptNeoXFamily;
extern const ModelFamily kPhiFamily;
extern const ModelFamily kStarCoder2Family;

}  // namespace graft
