// ModelConfig: the shape of a decoder-only transformer as an HF folder's config.json gives it, read
// strictly. What this program does not compute is refused with the field's name; every number has a
// limit, so that no later product of two of them overflows 64 bits. Plain data, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "tensor/dtype.h"

namespace graft {

enum class Architecture : uint8_t { kLlama, kMistral, kQwen2, kQwen3 };

// HF's class name, for example "LlamaForCausalLM".
std::string_view ArchitectureName(Architecture architecture);

enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3 };

struct RopeConfig {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;  // kLinear and kLlama3
  // kLlama3: wavelengths over original_tokens / low_freq_factor are divided by `factor`, those
  // under original_tokens / high_freq_factor stay, those between are blended.
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int32_t original_tokens = 0;
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
  int32_t context_tokens_max = 0;

  float rms_norm_epsilon = 1e-6f;
  bool tied_embeddings = false;  // lm_head is the embedding table
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;                // RMSNorm over each head of q and k, before RoPE
  std::vector<int32_t> layer_windows;  // [num_layers] sliding window in tokens, 0: full attention
  RopeConfig rope;

  std::optional<DType> dtype;  // what the config says the checkpoint holds
  std::optional<int32_t> bos_token_id;
  std::vector<int32_t> eos_token_ids;  // any of them ends a sequence; may be empty

  int64_t q_size() const { return int64_t{num_heads} * head_dim; }
  int64_t kv_size() const { return int64_t{num_kv_heads} * head_dim; }
  int64_t qkv_size() const { return q_size() + 2 * kv_size(); }
  // Weights and biases, each tensor counted once.
  int64_t num_parameters() const;
};

// kUnimplemented names the architecture or field that is not supported and what is;
// kInvalidArgument names a field that is missing or makes no sense.
Result<ModelConfig> ParseModelConfig(const Json& json);

// `model_dir`/config.json, with the end-of-sequence ids of generation_config.json where it has
// some.
Result<ModelConfig> LoadModelConfig(const std::string& model_dir);

}  // namespace graft
