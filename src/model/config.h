// ModelConfig: the shape of a decoder-only transformer as an HF folder's config.json gives it, read
// strictly. What this program does not compute is refused with the field's name; every number has a
// limit, so that no later product of two of them overflows 64 bits. Plain data, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/status.h"
#include "layers/layer_spec.h"
#include "model/quantisation_config.h"
#include "tensor/dtype.h"

namespace graft {

struct ModelWrapper;  // wrapper.h

inline constexpr size_t kEosTokensMax = 64;  // of a model's eos_token_id

enum class Architecture : uint8_t {
  kLlama,
  kMistral,
  kQwen2,
  kQwen3,
  kGemma,
  kGemma2,
  kGemma3,
  kPhi3,
  kSmolLm3,
  kGranite,
  kOlmo2,
  kOlmo3,
  kExaone4,
  kGlm,
  kGlm4,
  kMinistral3,
  kGpt2,
  kGptNeo,
  kGptNeoX,
  kPhi,
  kStarCoder2
};

// HF's class name, for example "LlamaForCausalLM".
std::string_view ArchitectureName(Architecture architecture);
struct ModelConfig;
// The class of config.json: the architecture's, or the wrapper's.
std::string_view ClassNameOf(const ModelConfig& config);

// kNoRotation turns nothing: its layers do not know positions.
enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn, kLongRope, kNoRotation };

struct RopeConfig {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;  // kLinear, kLlama3 and kYarn
  // kLlama3: wavelengths over original_tokens / low_freq_factor are divided by `factor`, those
  // under original_tokens / high_freq_factor stay, those between are blended.
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int32_t original_tokens = 0;  // kLlama3, kYarn and kLongRope
  // kYarn: dimensions that turn more than beta_fast times within original_tokens stay, those that
  // turn less than beta_slow times are divided by `factor`, those between are blended. The borders
  // are whole dimensions, or with `truncates` false the places between two.
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncates = true;
  // kLongRope: what each wavelength is multiplied by, [rotary dimensions / 2]: the short ones where
  // no position reaches original_tokens, else the long ones.
  std::vector<double> short_factors;
  std::vector<double> long_factors;
  double attention_factor = 1.0;  // kYarn and kLongRope: of sines and cosines
  // kYarn: queries at position p are multiplied by 1 + query_beta log(1 + floor(p /
  // original_tokens)), which is Llama 4's. 0: they are not.
  double query_beta = 0.0;
};

struct ModelConfig : ModelShape {
  Architecture architecture = Architecture::kLlama;
  const ModelWrapper* wrapper = nullptr;  // the class that this is the text part of; null: none
  // What adapters have for a wrapper's towers is left out; otherwise they are refused.
  bool text_only = false;
  std::string name_or_path;  // HF's _name_or_path, may be ""

  int32_t context_tokens_max = 0;
  int32_t num_positions = 0;  // learned embeddings, added to the tokens'; 0: none

  bool tied_embeddings = false;  // lm_head is the embedding table
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool head_bias = false;
  bool scales_embeddings = false;  // by sqrt(hidden_size), see EmbeddingScale
  bool norms_add_one = false;      // the checkpoint's norm weights are what is added to 1
  std::vector<LayerSpec> layers;   // [num_layers]
  std::vector<RopeConfig> ropes = {{}};

  std::optional<DType> dtype;                      // what the config says the checkpoint holds
  std::optional<QuantisationConfig> quantisation;  // of a checkpoint with weights of codes
  std::optional<int32_t> bos_token_id;
  std::vector<int32_t> eos_token_ids;  // any of them ends a sequence; may be empty
  // What was not taken from generation_config.json, and why.
  std::vector<std::string> ignored_of_generation;

  int32_t widest_window() const;  // of any layer; 0: all attend fully
  // Elements of the layer's norms.
  int64_t norm_elements(const LayerSpec& layer) const;
  // num_layers layers of grouped full attention and SwiGLU.
  void SetPlainLayers();
  // Weights and biases, each tensor counted once.
  int64_t num_parameters() const;
};

// kUnimplemented names the architecture or field that is not supported and what is;
// kInvalidArgument names a field that is missing or makes no sense.
Result<ModelConfig> ParseModelConfig(const Json& json);

// `model_dir`/config.json, with the end-of-sequence ids of generation_config.json where it has
// some. What makes no sense there is in ignored_of_generation, and no error.
Result<ModelConfig> LoadModelConfig(const std::string& model_dir);

}  // namespace graft
