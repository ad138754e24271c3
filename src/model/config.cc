#include "model/config.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "kernels/attention/attention.h"
#include "model/config_fields.h"
#include "model/config_layers.h"
#include "model/family.h"
#include "model/wrapper.h"

namespace graft {
namespace {

constexpr int64_t kVocabMax = int64_t{1} << 20;
constexpr int64_t kHiddenMax = int64_t{1} << 16;
constexpr int64_t kIntermediateMax = int64_t{1} << 19;
constexpr int64_t kLayersMax = 1024;
constexpr int64_t kHeadsMax = 1024;
constexpr int64_t kConfigBytesMax = int64_t{4} << 20;

// Kinds of models that are not served, by what their names contain (lower case, without "_"); the
// first that fits says why.
struct RefusedKind {
  std::string_view part;
  std::string_view why;
};
constexpr std::string_view kHybrid =
    "its layers are not all attention (recurrent or linear ones keep a state), and only "
    "transformers of attention layers are served";
constexpr std::string_view kMixture =
    "it is a mixture of experts, and only dense models are served";
constexpr std::string_view kVision =
    "it reads images or sound, and its part of text is none that is served";
constexpr RefusedKind kRefusedKinds[] = {
    {"jamba", kHybrid},          {"mamba", kHybrid},
    {"qwen3next", kHybrid},      {"bamba", kHybrid},
    {"zamba", kHybrid},          {"recurrentgemma", kHybrid},
    {"nemotronh", kHybrid},      {"falconh1", kHybrid},
    {"moehybrid", kHybrid},      {"lfm2", kHybrid},
    {"rwkv", kHybrid},           {"minimax", kHybrid},
    {"moe", kMixture},           {"mixtral", kMixture},
    {"deepseekv", kMixture},     {"gptoss", kMixture},
    {"dbrx", kMixture},          {"paligemma", kVision},
    {"phi3v", kVision},          {"phi4mm", kVision},
    {"phi4multimodal", kVision}, {"llava", kVision},
    {"mllama", kVision},         {"vlfor", kVision},
    {"vision", kVision},         {"audio", kVision},
    {"gemma3n", kVision},        {"forconditionalgeneration", kVision},
};
// Before these kinds, of which one of its names has a part.
constexpr std::string_view kChatGlm =
    "its code is in its own repository (trust_remote_code), which is not run; HF's class of these "
    "models is GlmForCausalLM, in the repositories whose names end in -hf, and adapters must have "
    "been trained on that class, too";

// Fields of other models that change the computation. Derived models reuse our architectures' names
// with these added; anything but absent, null, false, 0 or empty is refused, but of the families
// that read the field (ModelFamily::own_fields).
constexpr std::string_view kFieldsNotComputed[] = {
    "compression_config",
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_intermediate_size",
    "use_bidirectional_attention",
    "logit_scale",
    "logits_scaling",
    "attention_multiplier",
    "embedding_multiplier",
    "residual_multiplier",
    "scale_emb",
    "clip_qkv",
    "attention_chunk_size",
    "no_rope_layers",
    "no_rope_layer_interval",
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
    "scale_attn_by_inverse_layer_idx",
    "use_parallel_residual",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "query_pre_attn_scalar",
};
std::string SupportedArchitectures() {
  return Joined(ModelFamilies(), ", ", [](const ModelFamily* family) { return family->name; }) +
         "; and the text of " +
         Joined(ModelWrappers(), ", ", [](const ModelWrapper& wrapper) { return wrapper.name; });
}

Status RefuseArchitecture(const std::string& name) {
  std::string plain;
  for (const char c : name) {
    if (c != '_' && c != '-')
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  std::string why;
  if (plain.starts_with("chatglm")) why = ": " + std::string(kChatGlm);
  for (const RefusedKind& kind : kRefusedKinds) {
    if (!why.empty() || plain.find(kind.part) == plain.npos) continue;
    why = ": " + std::string(kind.why);
    break;
  }
  return UnimplementedError("architecture " + name + " is not supported" + why +
                            "; supported: " + SupportedArchitectures());
}

Result<Architecture> ReadArchitecture(const ConfigFields& fields) {
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
  for (const ModelFamily* family : ModelFamilies()) {
    if (name.empty() ? family->model_type != model_type : family->name != name) continue;
    if (!model_type.empty() && family->model_type != model_type) {
      return InvalidArgumentError("model_type \"" + model_type + "\" contradicts architectures \"" +
                                  name + "\"");
    }
    return family->architecture;
  }
  return RefuseArchitecture(name.empty() ? model_type : name);
}

Status RefuseFieldsNotComputed(const ConfigFields& fields, const ModelFamily& family) {
  for (const std::string_view name : kFieldsNotComputed) {
    const Json* value = fields.Find(name);
    if (value == nullptr || IsNeutral(*value)) continue;
    if (std::ranges::find(family.own_fields, name) != family.own_fields.end()) continue;
    return fields.Unsupported(name, *value, "models without it");
  }
  return OkStatus();
}

Status ReadDimensions(const ConfigFields& fields, const ModelFamily& family, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.vocab_size, fields.Int("vocab_size", 1, kVocabMax));
  const DimensionNames& names = family.dimensions;
  ASSIGN_OR_RETURN(config.hidden_size, fields.Int(names.hidden, 1, kHiddenMax));
  std::optional<int64_t> absent_intermediate;
  if (family.mlp_ratio > 0) absent_intermediate = int64_t{family.mlp_ratio} * config.hidden_size;
  ASSIGN_OR_RETURN(config.intermediate_size,
                   fields.Int(names.intermediate, 1, kIntermediateMax, absent_intermediate));
  ASSIGN_OR_RETURN(config.num_layers, fields.Int(names.layers, 1, kLayersMax));
  ASSIGN_OR_RETURN(config.num_heads, fields.Int(names.heads, 1, kHeadsMax));
  ASSIGN_OR_RETURN(config.num_kv_heads,
                   fields.Int("num_key_value_heads", 1, kHeadsMax, config.num_heads));
  if (config.num_heads % config.num_kv_heads != 0) {
    return InvalidArgumentError(std::string(names.heads) + " " + std::to_string(config.num_heads) +
                                " is not a multiple of num_key_value_heads " +
                                std::to_string(config.num_kv_heads));
  }
  // Some of HF's classes have their own default; the others split the hidden state evenly.
  const bool even_split = family.head_dim == 0;
  if (even_split && fields.Find("head_dim") == nullptr &&
      config.hidden_size % config.num_heads != 0) {
    return InvalidArgumentError("head_dim is missing and " + std::string(names.hidden) + " " +
                                std::to_string(config.hidden_size) + " is not a multiple of " +
                                std::string(names.heads) + " " + std::to_string(config.num_heads));
  }
  const int32_t absent = even_split ? config.hidden_size / config.num_heads : family.head_dim;
  ASSIGN_OR_RETURN(config.head_dim, fields.Int("head_dim", 1, kHiddenMax, absent));
  if (config.head_dim < 2 || config.head_dim > kAttentionHeadDimMax || config.head_dim % 2 != 0) {
    return UnimplementedError("head_dim " + std::to_string(config.head_dim) +
                              " is not supported; supported: even numbers up to " +
                              std::to_string(kAttentionHeadDimMax) +
                              ", which is as much as the attention kernels take on a CPU and on a "
                              "GPU");
  }
  ASSIGN_OR_RETURN(config.context_tokens_max, fields.Int(names.context, 1, kConfigContextMax));
  ASSIGN_OR_RETURN(const double epsilon,
                   fields.Number(names.norm_epsilon, 1e-12, 1e-1, family.rms_norm_epsilon));
  config.rms_norm_epsilon = static_cast<float>(epsilon);
  ASSIGN_OR_RETURN(config.tied_embeddings,
                   fields.Bool("tie_word_embeddings", family.tied_embeddings));
  return OkStatus();
}

// Which projections have a bias is partly the family's, partly the config's.
Status ReadBiases(const ConfigFields& fields, const ModelFamily& family, ModelConfig& config) {
  const bool has_by_default = family.attention_bias == AttentionBias::kQkvUnlessOff;
  ASSIGN_OR_RETURN(const bool attention_bias, fields.Bool("attention_bias", has_by_default));
  ASSIGN_OR_RETURN(config.mlp_bias, fields.Bool("mlp_bias", false));
  if (config.mlp_bias && !family.may_have_mlp_bias) {
    return fields.Unsupported("mlp_bias", Json(true),
                              "false, or true with " + FamiliesThat([](const ModelFamily& have) {
                                return have.may_have_mlp_bias;
                              }));
  }
  switch (family.attention_bias) {
    case AttentionBias::kByConfig:
      config.qkv_bias = attention_bias;
      config.o_bias = attention_bias;
      break;
    case AttentionBias::kNone:
      if (attention_bias) {
        return fields.Unsupported(
            "attention_bias", Json(true),
            "false for " + std::string(family.name) + ", which has no biases");
      }
      break;
    case AttentionBias::kQkv:
      config.qkv_bias = true;
      break;
    case AttentionBias::kAsLayers:
      break;
    case AttentionBias::kQkvUnlessOff:
      config.qkv_bias = attention_bias;
      break;
  }
  return OkStatus();
}

Status ReadDtype(const ConfigFields& fields, ModelConfig& config) {
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
Status ReadEos(const ConfigFields& fields, int32_t vocab_size, std::vector<int32_t>& out) {
  const Json* value = fields.Find("eos_token_id");
  if (value == nullptr) return OkStatus();
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > kEosTokensMax) {
    return fields.Wrong("eos_token_id", *value, "at most 64 token ids");
  }
  std::vector<int32_t> ids;
  for (const Json& id : list) {
    ASSIGN_OR_RETURN(
        const int32_t token,
        ConfigFields(Json{{"eos_token_id", id}}, "").Int("eos_token_id", 0, vocab_size - 1));
    ids.push_back(token);
  }
  out = std::move(ids);
  return OkStatus();
}

// The same of generation_config.json, which other programs write for themselves: nothing in it is a
// reason not to serve the model. What is no id is left out and told.
void TakeEosOfGeneration(const Result<Json>& json, ModelConfig& config) {
  const auto ignore = [&](const std::string& why) { config.ignored_of_generation.push_back(why); };
  if (!json.ok()) return ignore(json.status().message());
  if (!json->is_object()) return ignore("it is no JSON object");
  const ConfigFields fields(*json, "");
  const Json* value = fields.Find("eos_token_id");
  if (value == nullptr) return;
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > kEosTokensMax) {
    return ignore(fields.Wrong("eos_token_id", *value, "at most 64 token ids").message());
  }
  std::vector<int32_t> ids;
  for (const Json& id : list) {
    const Result<int32_t> token =
        ConfigFields(Json{{"eos_token_id", id}}, "").Int("eos_token_id", 0, config.vocab_size - 1);
    if (token.ok()) {
      ids.push_back(*token);
    } else {
      ignore(token.status().message());
    }
  }
  if (!ids.empty()) config.eos_token_ids = std::move(ids);
}

// Where a model's folder was to be.
Status ThisIsAnAdapter(const std::string& folder) {
  std::string base;
  const Result<Json> json = ParseJsonFile(folder + "/adapter_config.json");
  if (json.ok() && json->is_object()) {
    const Json name = json->value("base_model_name_or_path", Json());
    if (name.is_string()) base = name.get<std::string>();
  }
  return InvalidArgumentError(folder + " is an adapter, not a model: give its base" +
                              (base.empty() ? "" : " (" + base + ")") +
                              " as the model, and the folder above it with --adapters");
}

// A config of one of our families. `where` stands before its fields in errors.
Result<ModelConfig> ParseFamilyConfig(const Json& json, const std::string& where) {
  const ConfigFields fields(json, where);
  ModelConfig config;
  ASSIGN_OR_RETURN(config.architecture, ReadArchitecture(fields));
  const ModelFamily& family = FamilyOf(config.architecture);
  RETURN_IF_ERROR(RefuseFieldsNotComputed(fields, family));
  config.lora_targets = family.lora_targets;
  ASSIGN_OR_RETURN(config.name_or_path, fields.String("_name_or_path", ""));
  RETURN_IF_ERROR(ReadDimensions(fields, family, config));
  RETURN_IF_ERROR(ReadBiases(fields, family, config));
  RETURN_IF_ERROR(ReadLayers(fields, config));
  RETURN_IF_ERROR(ReadDtype(fields, config));
  if (fields.Find("bos_token_id") != nullptr) {
    ASSIGN_OR_RETURN(config.bos_token_id, fields.Int("bos_token_id", 0, config.vocab_size - 1));
  }
  RETURN_IF_ERROR(ReadEos(fields, config.vocab_size, config.eos_token_ids));
  return config;
}

Status ReadQuantisation(const Json& json, ModelConfig& config) {
  const ConfigFields fields(json, "");
  const Json* const quantisation = fields.Find("quantization_config");
  if (quantisation == nullptr || IsNeutral(*quantisation)) return OkStatus();
  ASSIGN_OR_RETURN(config.quantisation, ParseQuantisation(*quantisation));
  return OkStatus();
}

}  // namespace

std::string_view ArchitectureName(Architecture architecture) { return FamilyOf(architecture).name; }

std::string_view ClassNameOf(const ModelConfig& config) {
  return config.wrapper != nullptr ? config.wrapper->name : ArchitectureName(config.architecture);
}

void ModelConfig::SetPlainLayers() {
  CHECK(num_layers > 0 && head_dim > 0);
  layers.assign(num_layers, {.attention_scale = 1.0f / std::sqrt(static_cast<float>(head_dim))});
}

int32_t ModelConfig::widest_window() const {
  int32_t widest = 0;
  for (const LayerSpec& layer : layers) widest = std::max(widest, layer.window);
  return widest;
}

int64_t ModelConfig::norm_elements(const LayerSpec& layer) const {
  int64_t elements = 0;
  for (const bool norms : {layer.input_norms, layer.output_norms}) {
    if (norms) elements += 2 * norm_size();
  }
  if (layer.input_norms && layer.shares_norm) elements -= norm_size();
  if (!layer.qk_norm) return elements;
  return elements + (layer.qk_norm_across_heads ? q_size() + kv_size() : int64_t{2} * head_dim);
}

int64_t ModelConfig::num_parameters() const {
  const int64_t attention = (qkv_size() + q_size()) * hidden_size;
  const int64_t mlp = (gate_up_size() + intermediate_size) * hidden_size;
  int64_t total = int64_t{vocab_size} * hidden_size * (tied_embeddings ? 1 : 2) + norm_size();
  total += int64_t{num_positions} * hidden_size;
  if (head_bias) total += vocab_size;
  for (const LayerSpec& layer : layers) {
    total += attention + mlp + norm_elements(layer);
    if (qkv_bias) total += qkv_size();
    if (o_bias) total += hidden_size;
    if (mlp_bias) total += gate_up_size() + hidden_size;
  }
  return total;
}

Result<ModelConfig> ParseModelConfig(const Json& json) {
  if (!json.is_object()) return InvalidArgumentError("a model config must be a JSON object");
  const ModelWrapper* const wrapper = FindWrapper(ConfigFields(json, ""));
  if (wrapper == nullptr) {
    ASSIGN_OR_RETURN(ModelConfig config, ParseFamilyConfig(json, ""));
    RETURN_IF_ERROR(ReadQuantisation(json, config));
    return config;
  }
  ASSIGN_OR_RETURN(const Json text, TextConfigOf(*wrapper, json));
  const bool is_nested = json.value("text_config", Json()).is_object();
  ASSIGN_OR_RETURN(ModelConfig config, ParseFamilyConfig(text, is_nested ? "text_config." : ""));
  config.wrapper = wrapper;
  // It is the whole model's, whatever its text is.
  RETURN_IF_ERROR(ReadQuantisation(json, config));
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
  if (!FileExists(path)) {
    if (FileExists(model_dir + "/adapter_config.json")) return ThisIsAnAdapter(model_dir);
    return NotFoundError("there is no " + path +
                         ": a model is a folder on this machine, as Hugging Face writes it; "
                         "one of a hub is fetched by graft fetch ORG/NAME, or by --model ORG/NAME");
  }
  ASSIGN_OR_RETURN(const Json json, read(path));
  Result<ModelConfig> config = ParseModelConfig(json);
  if (!config.ok()) return config.status().WithContext(path);

  const std::string generation_path = model_dir + "/generation_config.json";
  if (!FileExists(generation_path)) return config;
  ASSIGN_OR_RETURN(const std::string generation, ReadFile(generation_path, kConfigBytesMax));
  TakeEosOfGeneration(ParseJson(generation), *config);
  return config;
}

}  // namespace graft
