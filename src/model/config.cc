#include "model/config.h"

#include <array>
#include <cmath>

#include "base/file.h"
#include "kernels/attention/attention.h"

namespace graft {
namespace {

constexpr int64_t kVocabMax = int64_t{1} << 20;
constexpr int64_t kHiddenMax = int64_t{1} << 16;
constexpr int64_t kIntermediateMax = int64_t{1} << 19;
constexpr int64_t kLayersMax = 1024;
constexpr int64_t kHeadsMax = 1024;
constexpr int64_t kContextMax = int64_t{1} << 24;
constexpr int64_t kConfigBytesMax = int64_t{4} << 20;
constexpr size_t kEosTokensMax = 64;

constexpr std::string_view kSupportedArchitectures =
    "LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM";

struct KnownArchitecture {
  Architecture architecture;
  std::string_view name;
  std::string_view model_type;
};
constexpr std::array<KnownArchitecture, 4> kKnownArchitectures = {{
    {Architecture::kLlama, "LlamaForCausalLM", "llama"},
    {Architecture::kMistral, "MistralForCausalLM", "mistral"},
    {Architecture::kQwen2, "Qwen2ForCausalLM", "qwen2"},
    {Architecture::kQwen3, "Qwen3ForCausalLM", "qwen3"},
}};

// Fields of other models that change the computation. Derived models reuse our architectures' names
// with these added; anything but absent, null, false, 0 or empty is refused.
constexpr std::string_view kFieldsNotComputed[] = {
    "quantization_config",
    "compression_config",
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_intermediate_size",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "query_pre_attn_scalar",
    "logit_scale",
    "logits_scaling",
    "attention_multiplier",
    "embedding_multiplier",
    "residual_multiplier",
    "scale_emb",
    "clip_qkv",
    "attention_chunk_size",
    "no_rope_layers",
    "attn_temperature_tuning",
    "rope_interleaved",
    "qk_layernorm",
    "lm_head_bias",
    "alibi",
    "is_encoder_decoder",
    "add_cross_attention",
    "cross_attention_layers",
    "vision_config",
    "audio_config",
};

bool IsNeutral(const Json& value) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0.0;
  return value.empty();
}

// What an error shows of a value: enough to recognise it.
std::string Shown(const Json& value) {
  std::string text = DumpJson(value);
  if (text.size() > 80) text = text.substr(0, 80) + "...";
  return text;
}

// Typed, range-checked reading of one JSON object's fields. A field that is null counts as absent.
class Fields {
 public:
  Fields(const Json& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {}

  const Json* Find(std::string_view name) const {
    const auto it = object_.find(std::string(name));
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  bool Mentions(std::string_view name) const { return object_.contains(std::string(name)); }

  Result<int32_t> Int(std::string_view name, int64_t min, int64_t max,
                      std::optional<int64_t> absent = std::nullopt) const {
    const Json* value = Find(name);
    if (value == nullptr) {
      if (!absent.has_value()) return Missing(name);
      return static_cast<int32_t>(*absent);
    }
    const bool in_range =
        value->is_number_integer() &&
        (!value->is_number_unsigned() || value->get<uint64_t>() <= uint64_t{INT64_MAX}) &&
        value->get<int64_t>() >= min && value->get<int64_t>() <= max;
    if (!in_range) {
      return Wrong(name, *value,
                   "an integer in [" + std::to_string(min) + ", " + std::to_string(max) + "]");
    }
    return static_cast<int32_t>(value->get<int64_t>());
  }

  Result<double> Number(std::string_view name, double min, double max,
                        std::optional<double> absent = std::nullopt) const {
    const Json* value = Find(name);
    if (value == nullptr) {
      if (!absent.has_value()) return Missing(name);
      return *absent;
    }
    if (!value->is_number() || !(value->get<double>() >= min && value->get<double>() <= max)) {
      return Wrong(name, *value,
                   "a number in [" + Shown(Json(min)) + ", " + Shown(Json(max)) + "]");
    }
    return value->get<double>();
  }

  Result<bool> Bool(std::string_view name, bool absent) const {
    const Json* value = Find(name);
    if (value == nullptr) return absent;
    if (!value->is_boolean()) return Wrong(name, *value, "true or false");
    return value->get<bool>();
  }

  Result<std::string> String(std::string_view name, std::string absent) const {
    const Json* value = Find(name);
    if (value == nullptr) return absent;
    if (!value->is_string()) return Wrong(name, *value, "a string");
    return value->get<std::string>();
  }

  Status Missing(std::string_view name) const {
    return InvalidArgumentError(prefix_ + std::string(name) + " is missing");
  }
  Status Wrong(std::string_view name, const Json& value, const std::string& expected) const {
    return InvalidArgumentError(prefix_ + std::string(name) + " is " + Shown(value) +
                                ", expected " + expected);
  }
  Status Unsupported(std::string_view name, const Json& value, const std::string& supported) const {
    return UnimplementedError(prefix_ + std::string(name) + " " + Shown(value) +
                              " is not supported; supported: " + supported);
  }

 private:
  const Json& object_;
  const std::string prefix_;
};

Result<Architecture> ReadArchitecture(const Fields& fields) {
  ASSIGN_OR_RETURN(const std::string model_type, fields.String("model_type", ""));
  const Json* architectures = fields.Find("architectures");
  std::string name;
  if (architectures != nullptr) {
    const bool one_string =
        architectures->is_array() && architectures->size() == 1 && (*architectures)[0].is_string();
    if (!one_string) {
      return fields.Wrong("architectures", *architectures, "a list of one class name");
    }
    name = (*architectures)[0].get<std::string>();
  } else if (model_type.empty()) {
    return fields.Missing("architectures");
  }
  for (const KnownArchitecture& known : kKnownArchitectures) {
    if (name.empty() ? known.model_type != model_type : known.name != name) continue;
    if (!model_type.empty() && known.model_type != model_type) {
      return InvalidArgumentError("model_type \"" + model_type + "\" contradicts architectures \"" +
                                  name + "\"");
    }
    return known.architecture;
  }
  return UnimplementedError(
      "architecture " + (name.empty() ? model_type : name) +
      " is not supported; supported: " + std::string(kSupportedArchitectures));
}

Status RefuseFieldsNotComputed(const Fields& fields) {
  for (const std::string_view name : kFieldsNotComputed) {
    const Json* value = fields.Find(name);
    if (value != nullptr && !IsNeutral(*value)) {
      return fields.Unsupported(name, *value, "models without it");
    }
  }
  const Json* rotary = fields.Find("partial_rotary_factor");
  if (rotary != nullptr && *rotary != 1.0) {
    return fields.Unsupported("partial_rotary_factor", *rotary, "1 (every dimension rotates)");
  }
  ASSIGN_OR_RETURN(const std::string act, fields.String("hidden_act", "silu"));
  if (act != "silu" && act != "swish") {
    return fields.Unsupported("hidden_act", Json(act), "silu");
  }
  return OkStatus();
}

Status ReadDimensions(const Fields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.vocab_size, fields.Int("vocab_size", 1, kVocabMax));
  ASSIGN_OR_RETURN(config.hidden_size, fields.Int("hidden_size", 1, kHiddenMax));
  ASSIGN_OR_RETURN(config.intermediate_size, fields.Int("intermediate_size", 1, kIntermediateMax));
  ASSIGN_OR_RETURN(config.num_layers, fields.Int("num_hidden_layers", 1, kLayersMax));
  ASSIGN_OR_RETURN(config.num_heads, fields.Int("num_attention_heads", 1, kHeadsMax));
  ASSIGN_OR_RETURN(config.num_kv_heads,
                   fields.Int("num_key_value_heads", 1, kHeadsMax, config.num_heads));
  if (config.num_heads % config.num_kv_heads != 0) {
    return InvalidArgumentError("num_attention_heads " + std::to_string(config.num_heads) +
                                " is not a multiple of num_key_value_heads " +
                                std::to_string(config.num_kv_heads));
  }
  // HF's Qwen3 has its own default; everyone else splits the hidden state evenly.
  const bool even_split = config.architecture != Architecture::kQwen3;
  if (even_split && fields.Find("head_dim") == nullptr &&
      config.hidden_size % config.num_heads != 0) {
    return InvalidArgumentError(
        "head_dim is missing and hidden_size " + std::to_string(config.hidden_size) +
        " is not a multiple of num_attention_heads " + std::to_string(config.num_heads));
  }
  const int32_t absent = even_split ? config.hidden_size / config.num_heads : 128;
  ASSIGN_OR_RETURN(config.head_dim, fields.Int("head_dim", 1, kHiddenMax, absent));
  if (config.head_dim < 2 || config.head_dim > kAttentionHeadDimMax || config.head_dim % 2 != 0) {
    return UnimplementedError("head_dim " + std::to_string(config.head_dim) +
                              " is not supported; supported: even numbers up to " +
                              std::to_string(kAttentionHeadDimMax) +
                              ", which is as much as the attention kernels take on a CPU and on a "
                              "GPU");
  }
  ASSIGN_OR_RETURN(config.context_tokens_max,
                   fields.Int("max_position_embeddings", 1, kContextMax));
  ASSIGN_OR_RETURN(const double epsilon, fields.Number("rms_norm_eps", 1e-12, 1e-1, 1e-6));
  config.rms_norm_epsilon = static_cast<float>(epsilon);
  ASSIGN_OR_RETURN(config.tied_embeddings, fields.Bool("tie_word_embeddings", false));
  return OkStatus();
}

// Which projections have a bias is partly the architecture's, partly the config's.
Status ReadBiases(const Fields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const bool attention_bias, fields.Bool("attention_bias", false));
  ASSIGN_OR_RETURN(const bool mlp_bias, fields.Bool("mlp_bias", false));
  if (mlp_bias && config.architecture != Architecture::kLlama) {
    return fields.Unsupported("mlp_bias", Json(true), "false, or true with LlamaForCausalLM");
  }
  config.mlp_bias = mlp_bias;
  switch (config.architecture) {
    case Architecture::kLlama:
    case Architecture::kQwen3:
      config.qkv_bias = attention_bias;
      config.o_bias = attention_bias;
      break;
    case Architecture::kMistral:
      if (attention_bias) {
        return fields.Unsupported("attention_bias", Json(true),
                                  "false for MistralForCausalLM, which has no biases");
      }
      break;
    case Architecture::kQwen2:
      config.qkv_bias = true;  // whatever the config says: HF has it in the class
      break;
  }
  config.qk_norm = config.architecture == Architecture::kQwen3;
  ASSIGN_OR_RETURN(const bool use_qk_norm, fields.Bool("use_qk_norm", config.qk_norm));
  if (use_qk_norm != config.qk_norm) {
    return fields.Unsupported("use_qk_norm", Json(use_qk_norm),
                              "true for Qwen3ForCausalLM, false for the others");
  }
  return OkStatus();
}

// The window that sliding layers have, 0 where the model has none.
Result<int32_t> ReadWindow(const Fields& fields, Architecture architecture) {
  switch (architecture) {
    case Architecture::kLlama:
      if (const Json* window = fields.Find("sliding_window"); window != nullptr) {
        return fields.Unsupported("sliding_window", *window, "null for LlamaForCausalLM");
      }
      return 0;
    case Architecture::kMistral:
      // HF's default for an absent field is 4096; later models write null, which means full.
      if (!fields.Mentions("sliding_window")) return 4096;
      return fields.Int("sliding_window", 1, kContextMax, 0);
    case Architecture::kQwen2:
    case Architecture::kQwen3: {
      ASSIGN_OR_RETURN(const bool used, fields.Bool("use_sliding_window", false));
      if (!used) return 0;
      const int64_t absent = fields.Mentions("sliding_window") ? 0 : 4096;
      return fields.Int("sliding_window", 1, kContextMax, absent);
    }
  }
  return 0;
}

Status ReadLayerWindows(const Fields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int32_t window, ReadWindow(fields, config.architecture));
  const bool is_qwen =
      config.architecture == Architecture::kQwen2 || config.architecture == Architecture::kQwen3;
  // Qwen: the first max_window_layers layers attend fully.
  int32_t num_full_layers = 0;
  if (is_qwen && window != 0) {
    ASSIGN_OR_RETURN(num_full_layers, fields.Int("max_window_layers", 0, 1 << 20, 28));
  }
  config.layer_windows.assign(config.num_layers, 0);
  for (int32_t i = num_full_layers; i < config.num_layers; ++i) config.layer_windows[i] = window;

  const Json* layer_types = fields.Find("layer_types");
  if (layer_types == nullptr) return OkStatus();
  if (!layer_types->is_array() || layer_types->size() != static_cast<size_t>(config.num_layers)) {
    return fields.Wrong("layer_types", *layer_types, "a list of num_hidden_layers strings");
  }
  for (int32_t i = 0; i < config.num_layers; ++i) {
    const Json& type = (*layer_types)[i];
    if (type == "full_attention") {
      config.layer_windows[i] = 0;
    } else if (type == "sliding_attention") {
      if (window == 0) {
        return InvalidArgumentError("layer_types[" + std::to_string(i) +
                                    "] is \"sliding_attention\" but sliding_window gives no size");
      }
      config.layer_windows[i] = window;
    } else {
      return fields.Unsupported("layer_types[" + std::to_string(i) + "]", type,
                                "\"full_attention\", \"sliding_attention\"");
    }
  }
  return OkStatus();
}

// `rope` is the object that says how positions are scaled.
Status ReadRopeScaling(const Fields& rope, RopeConfig& out) {
  // "type" is the older spelling.
  ASSIGN_OR_RETURN(const std::string older, rope.String("type", "default"));
  ASSIGN_OR_RETURN(const std::string type, rope.String("rope_type", older));
  const Json* rotary = rope.Find("partial_rotary_factor");
  if (rotary != nullptr && *rotary != 1.0) {
    return rope.Unsupported("partial_rotary_factor", *rotary, "1 (every dimension rotates)");
  }
  if (type == "default") return OkStatus();
  if (type != "linear" && type != "llama3") {
    return rope.Unsupported("rope_type", Json(type), "default, linear, llama3");
  }
  ASSIGN_OR_RETURN(out.factor, rope.Number("factor", 1.0, 1e6));
  if (type == "linear") {
    out.scaling = RopeScaling::kLinear;
    return OkStatus();
  }
  out.scaling = RopeScaling::kLlama3;
  ASSIGN_OR_RETURN(out.low_freq_factor, rope.Number("low_freq_factor", 1e-6, 1e6));
  ASSIGN_OR_RETURN(out.high_freq_factor, rope.Number("high_freq_factor", 1e-6, 1e6));
  if (!(out.high_freq_factor > out.low_freq_factor)) {
    return InvalidArgumentError("rope scaling: high_freq_factor must be above low_freq_factor");
  }
  ASSIGN_OR_RETURN(out.original_tokens,
                   rope.Int("original_max_position_embeddings", 1, kContextMax));
  return OkStatus();
}

Status ReadRope(const Fields& fields, RopeConfig& out) {
  const Json* scaling = fields.Find("rope_scaling");
  const Json* parameters = fields.Find("rope_parameters");
  if (scaling != nullptr && parameters != nullptr && *scaling != *parameters) {
    return InvalidArgumentError("rope_scaling and rope_parameters say different things");
  }
  ASSIGN_OR_RETURN(out.theta, fields.Number("rope_theta", 1.0, 1e15, 10000.0));
  const std::string_view name = parameters != nullptr ? "rope_parameters" : "rope_scaling";
  const Json* rope = parameters != nullptr ? parameters : scaling;
  if (rope == nullptr) return OkStatus();
  if (!rope->is_object()) return fields.Wrong(name, *rope, "an object");
  for (const auto& [key, value] : rope->items()) {
    if (value.is_object()) {
      return fields.Unsupported(std::string(name) + "." + key, value,
                                "one set of parameters for all layers");
    }
  }
  const Fields inner(*rope, std::string(name) + ".");
  ASSIGN_OR_RETURN(out.theta, inner.Number("rope_theta", 1.0, 1e15, out.theta));
  return ReadRopeScaling(inner, out);
}

Status ReadDtype(const Fields& fields, ModelConfig& config) {
  const std::string_view name = fields.Find("dtype") != nullptr ? "dtype" : "torch_dtype";
  ASSIGN_OR_RETURN(std::string dtype, fields.String(name, ""));
  if (dtype.starts_with("torch.")) dtype.erase(0, 6);
  if (dtype.empty() || dtype == "auto") return OkStatus();
  if (dtype == "float32") {
    config.dtype = DType::kF32;
  } else if (dtype == "bfloat16") {
    config.dtype = DType::kBF16;
  } else if (dtype == "float16") {
    config.dtype = DType::kF16;
  } else {
    return fields.Unsupported(name, Json(dtype), "float32, bfloat16, float16");
  }
  return OkStatus();
}

// An id, a list of ids, or nothing (then `out` stays as it is).
Status ReadEos(const Fields& fields, int32_t vocab_size, std::vector<int32_t>& out) {
  const Json* value = fields.Find("eos_token_id");
  if (value == nullptr) return OkStatus();
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > kEosTokensMax) {
    return fields.Wrong("eos_token_id", *value, "at most 64 token ids");
  }
  std::vector<int32_t> ids;
  for (const Json& id : list) {
    ASSIGN_OR_RETURN(const int32_t token,
                     Fields(Json{{"eos_token_id", id}}, "").Int("eos_token_id", 0, vocab_size - 1));
    ids.push_back(token);
  }
  out = std::move(ids);
  return OkStatus();
}

}  // namespace

std::string_view ArchitectureName(Architecture architecture) {
  for (const KnownArchitecture& known : kKnownArchitectures) {
    if (known.architecture == architecture) return known.name;
  }
  return "?";
}

int64_t ModelConfig::num_parameters() const {
  const int64_t attention = (qkv_size() + q_size()) * hidden_size;
  const int64_t mlp = int64_t{3} * intermediate_size * hidden_size;
  int64_t layer = attention + mlp + int64_t{2} * hidden_size;
  if (qkv_bias) layer += qkv_size();
  if (o_bias) layer += hidden_size;
  if (mlp_bias) layer += int64_t{2} * intermediate_size + hidden_size;
  if (qk_norm) layer += int64_t{2} * head_dim;
  const int64_t table = int64_t{vocab_size} * hidden_size;
  return layer * num_layers + table * (tied_embeddings ? 1 : 2) + hidden_size;
}

Result<ModelConfig> ParseModelConfig(const Json& json) {
  if (!json.is_object()) return InvalidArgumentError("a model config must be a JSON object");
  const Fields fields(json, "");
  ModelConfig config;
  ASSIGN_OR_RETURN(config.architecture, ReadArchitecture(fields));
  RETURN_IF_ERROR(RefuseFieldsNotComputed(fields));
  ASSIGN_OR_RETURN(config.name_or_path, fields.String("_name_or_path", ""));
  RETURN_IF_ERROR(ReadDimensions(fields, config));
  RETURN_IF_ERROR(ReadBiases(fields, config));
  RETURN_IF_ERROR(ReadLayerWindows(fields, config));
  RETURN_IF_ERROR(ReadRope(fields, config.rope));
  RETURN_IF_ERROR(ReadDtype(fields, config));
  if (fields.Find("bos_token_id") != nullptr) {
    ASSIGN_OR_RETURN(config.bos_token_id, fields.Int("bos_token_id", 0, config.vocab_size - 1));
  }
  RETURN_IF_ERROR(ReadEos(fields, config.vocab_size, config.eos_token_ids));
  return config;
}

Result<ModelConfig> LoadModelConfig(const std::string& model_dir) {
  const auto read = [](const std::string& path) -> Result<Json> {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kConfigBytesMax));
    Result<Json> json = ParseJson(text);
    if (!json.ok()) return json.status().WithContext(path);
    return json;
  };
  const std::string path = model_dir + "/config.json";
  ASSIGN_OR_RETURN(const Json json, read(path));
  Result<ModelConfig> config = ParseModelConfig(json);
  if (!config.ok()) return config.status().WithContext(path);

  const std::string generation_path = model_dir + "/generation_config.json";
  if (!FileExists(generation_path)) return config;
  ASSIGN_OR_RETURN(const Json generation, read(generation_path));
  if (!generation.is_object()) {
    return InvalidArgumentError(generation_path + ": expected a JSON object");
  }
  const Status status = ReadEos(Fields(generation, ""), config->vocab_size, config->eos_token_ids);
  if (!status.ok()) return status.WithContext(generation_path);
  return config;
}

}  // namespace graft
