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
#include "kernels/gated_activation/gated_activation.h"
#include "tensor/dtype.h"

namespace graft {

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
  kOlmo2
};

// HF's class name, for example "LlamaForCausalLM".
std::string_view ArchitectureName(Architecture architecture);

enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn, kLongRope, kNoRotation };

// kNoRotation turns nothing: its layers do not know positions.
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
};

// What one layer computes, whatever the architecture is called:
//   x += scale * [output norm](attention([norm](x)))
//   x += scale * [output norm](mlp([norm](x)))
struct LayerSpec {
  int32_t window = 0;                 // sliding window in tokens, 0: full attention
  int32_t rope = 0;                   // which of ModelConfig::ropes turns its queries and keys
  float attention_scale = 1.0f;       // of q k^T
  float score_cap = 0.0f;             // AttentionArgs::score_cap
  bool qk_norm = false;               // RMSNorm over each head of q and k, before RoPE
  bool qk_norm_across_heads = false;  // where qk_norm: one over all heads of q, one over all of k
  bool input_norms = true;            // RMSNorm of what attention and MLP read
  bool output_norms = false;          // RMSNorm of what attention and MLP return
  Activation activation = Activation::kSilu;
  // Of all that attention and MLP add, bias and LoRA with it. Not beside output norms.
  float residual_scale = 1.0f;

  // Whether what attention and MLP return passes through something before it is added.
  bool has_branch() const { return output_norms || residual_scale != 1.0f; }
  bool operator==(const LayerSpec&) const = default;
};

struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  std::string name_or_path;  // HF's _name_or_path, may be ""

  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
  int32_t intermediate_size = 0;
  int32_t num_layers = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;  // divides num_heads
  int32_t head_dim = 0;      // even
  int32_t rotary_dim = 0;    // the first dimensions of a head, which RoPE turns; 0: all
  int32_t context_tokens_max = 0;

  float rms_norm_epsilon = 1e-6f;
  bool tied_embeddings = false;  // lm_head is the embedding table
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool scales_embeddings = false;  // by sqrt(hidden_size), see EmbeddingScale
  float hidden_scale = 1.0f;       // of what the first layer reads, virtual tokens with it
  float logit_scale = 1.0f;        // before the cap
  bool norms_add_one = false;      // the checkpoint's norm weights are what is added to 1
  float logit_cap = 0.0f;          // 0: none; c: logits x become c tanh(x / c)
  std::vector<LayerSpec> layers;   // [num_layers]
  std::vector<RopeConfig> ropes = {{}};

  std::optional<DType> dtype;  // what the config says the checkpoint holds
  std::optional<int32_t> bos_token_id;
  std::vector<int32_t> eos_token_ids;  // any of them ends a sequence; may be empty
  // Of generation_config.json: what was not taken, and why.
  std::vector<std::string> ignored_of_generation;

  int64_t q_size() const { return int64_t{num_heads} * head_dim; }
  int64_t kv_size() const { return int64_t{num_kv_heads} * head_dim; }
  int64_t qkv_size() const { return q_size() + 2 * kv_size(); }
  int32_t widest_window() const;  // of any layer; 0: all attend fully
  int32_t num_rotary() const { return rotary_dim > 0 ? rotary_dim : head_dim; }
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
