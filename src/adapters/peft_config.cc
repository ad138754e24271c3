#include "adapters/peft_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "adapters/peft_json.h"
#include "base/json.h"
#include "base/strings.h"
#include "kernels/lora/lora.h"

namespace graft {
namespace {

using peft_json::CheckKeys;
using peft_json::CheckTask;
using peft_json::IsOff;
using peft_json::Malformed;
using peft_json::ReadText;
using peft_json::Unsupported;
using peft_json::Value;

// From PEFT's LoraConfig, and enable_lora and merge_weights of its first versions.
constexpr std::string_view kKnownKeys[] = {
    // Read below.
    "peft_type", "task_type", "base_model_name_or_path", "peft_version", "r", "lora_alpha",
    "use_rslora", "rank_pattern", "alpha_pattern", "target_modules", "exclude_modules",
    "layers_to_transform", "layers_pattern", "alora_invocation_tokens", "bias", "init_lora_weights",
    "fan_in_fan_out",
    // About training, provenance or loading: the forward pass is the same.
    "auto_mapping", "revision", "inference_mode",
    "lora_dropout",       // identity at inference
    "merge_weights",      // when to merge, not what
    "megatron_core",      // read with megatron_config only
    "qalora_group_size",  // read with use_qalora only
    "runtime_config",     // where DoRA's initialisation runs
    "velora_config",      // another backward pass, the same forward
    // Ties what modules_to_save, embeddings and token indices change; all of those are refused.
    "ensure_weight_tying",
    // Initialisation; init_lora_weights says whether the base was changed with it.
    "loftq_config", "eva_config", "corda_config", "lora_ga_config"};

constexpr peft_json::UnappliedKey kUnappliedKeys[] = {
    {"use_dora", "asks for DoRA's magnitudes, which are not applied"},
    peft_json::kModulesToSave,
    {"lora_bias", "asks for a bias on lora_B, which is not applied"},
    {"target_parameters",
     "adapts bare parameters; only the seven projections of a layer can be adapted"},
    {"layer_replication", "stacks copies of the base's layers"},
    {"trainable_token_indices", "changes rows of the embedding"},
    {"use_qalora", "asks for QALoRA's pooled inputs, which are not applied"},
    {"use_bdlora", "asks for block-diagonal matrices"},
    {"arrow_config", "routes between several adapters"},
    {"kasa_config", "truncates the base's weights and adds a diagonal (KaSA)"},
    {"monteclora_config", "samples the adapter's weights"},
    {"megatron_config", "adapts Megatron's parallel layers"},
    {"enable_lora", "adapts parts of a fused projection"},
};

// Before all else, so that another method is refused for what it is, not for a key of its own.
Status CheckType(const OrderedJson& json) {
  const OrderedJson& type = Value(json, "peft_type");
  if (!type.is_string()) return Malformed("peft_type", type, "a PEFT adapter needs \"LORA\" here");
  if (type.get_ref<const std::string&>() != "LORA") {
    return Unsupported(
        "peft_type", type,
        "is not supported: only \"LORA\" is, and \"PROMPT_TUNING\", \"P_TUNING\" and "
        "\"PREFIX_TUNING\" are");
  }
  return OkStatus();
}

Status CheckBias(const OrderedJson& json) {
  const OrderedJson& bias = Value(json, "bias");
  if (bias.is_null()) return OkStatus();
  if (!bias.is_string()) return Malformed("bias", bias, "expected \"none\"");
  if (bias.get_ref<const std::string&>() == "none") return OkStatus();
  return Unsupported("bias", bias, "trains the base's biases, which are not applied");
}

// Most initialisations set A and B alone. Some take their product out of the base, too: such an
// adapter fits the changed base and no other.
Status CheckInit(const OrderedJson& json) {
  const OrderedJson& init = Value(json, "init_lora_weights");
  if (init.is_null() || init.is_boolean()) return OkStatus();
  if (!init.is_string()) {
    return Malformed("init_lora_weights", init, "expected true, false or a string");
  }
  const std::string name = LowerCase(init.get_ref<const std::string&>());
  for (const std::string_view same_base : {"gaussian", "eva", "orthogonal", "mica"}) {
    if (name == same_base) return OkStatus();
  }
  const bool changes_base = name.starts_with("pissa") || name.starts_with("corda") ||
                            name == "olora" || name == "loftq" || name == "lora_ga";
  if (changes_base) {
    return Unsupported("init_lora_weights", init,
                       "changed the base's weights before training. Save the adapter again with "
                       "PEFT's save_pretrained(path_initial_model_for_weight_conversion=...), "
                       "which makes it fit the original base");
  }
  return Unsupported("init_lora_weights", init, "is not an initialisation this program knows");
}

Result<bool> ReadBool(const OrderedJson& json, std::string_view key) {
  const OrderedJson& value = Value(json, key);
  if (value.is_null()) return false;
  if (!value.is_boolean()) return Malformed(key, value, "expected true or false");
  return value.get<bool>();
}

// `where` names the value in errors: "r", or a key of rank_pattern.
Result<int32_t> ReadRank(const std::string& where, const OrderedJson& value) {
  const std::string wanted = "a rank is an integer from 1 to " + std::to_string(kLoraRankMax);
  if (!value.is_number_integer()) return Malformed(where, value, wanted);
  // An unsigned value past int64 reads as negative: refused all the same.
  const int64_t rank = value.get<int64_t>();
  if (rank < 1 || rank > kLoraRankMax) return Malformed(where, value, wanted);
  return static_cast<int32_t>(rank);
}

Result<double> ReadAlpha(const std::string& where, const OrderedJson& value) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    return Malformed(where, value, "alpha is a finite number");
  }
  return value.get<double>();
}

template <typename T, typename ReadOne>
Status ReadPattern(const OrderedJson& json, std::string_view key, const ReadOne& read_one,
                   std::vector<std::pair<std::string, T>>* out) {
  const OrderedJson& value = Value(json, key);
  if (value.is_null()) return OkStatus();
  if (!value.is_object()) return Malformed(key, value, "expected an object");
  if (value.size() > static_cast<size_t>(kPeftPatternKeysMax)) {
    return InvalidArgumentError("\"" + std::string(key) + "\" has " + std::to_string(value.size()) +
                                " keys, the limit is " + std::to_string(kPeftPatternKeysMax));
  }
  for (const auto& [pattern, one] : value.items()) {
    ASSIGN_OR_RETURN(T read, read_one(std::string(key) + "." + pattern, one));
    out->emplace_back(pattern, read);
  }
  return OkStatus();
}

Result<std::vector<std::string>> ReadNames(std::string_view key, const OrderedJson& value) {
  if (value.size() > static_cast<size_t>(kPeftNamesMax)) {
    return InvalidArgumentError("\"" + std::string(key) + "\" lists " +
                                std::to_string(value.size()) + " names, the limit is " +
                                std::to_string(kPeftNamesMax));
  }
  std::vector<std::string> names;
  for (const OrderedJson& name : value) {
    if (!name.is_string()) return Malformed(key, value, "expected a list of strings");
    names.push_back(name.get<std::string>());
  }
  return names;
}

Status ReadTargets(const OrderedJson& json, PeftConfig* config) {
  const OrderedJson& value = Value(json, "target_modules");
  if (value.is_null()) {
    config->target_modules = DefaultTargets{};
    return OkStatus();
  }
  if (value.is_array()) {
    ASSIGN_OR_RETURN(std::vector<std::string> names, ReadNames("target_modules", value));
    if (names.empty()) return Malformed("target_modules", value, "no module is adapted");
    config->target_modules = ModuleNames{std::move(names)};
    return OkStatus();
  }
  if (!value.is_string()) {
    return Malformed("target_modules", value, "expected a list of names, a regex or null");
  }
  std::string pattern = value.get<std::string>();
  if (LowerCase(pattern) == "all-linear") {
    config->target_modules = AllLinear{};
  } else {
    config->target_modules = ModuleRegex{std::move(pattern)};
  }
  return OkStatus();
}

Status ReadExcluded(const OrderedJson& json, PeftConfig* config) {
  const OrderedJson& value = Value(json, "exclude_modules");
  if (IsOff(value)) return OkStatus();
  if (value.is_string()) {
    config->exclude_modules = ModuleRegex{value.get<std::string>()};
    return OkStatus();
  }
  if (!value.is_array()) {
    return Malformed("exclude_modules", value, "expected a list of names, a regex or null");
  }
  ASSIGN_OR_RETURN(std::vector<std::string> names, ReadNames("exclude_modules", value));
  config->exclude_modules = ModuleNames{std::move(names)};
  return OkStatus();
}

Status ReadLayers(const OrderedJson& json, PeftConfig* config) {
  const OrderedJson& layers = Value(json, "layers_to_transform");
  const OrderedJson& pattern = Value(json, "layers_pattern");
  if (layers.is_number_integer()) {
    config->layers_to_transform.push_back(layers.get<int64_t>());
  } else if (layers.is_array()) {
    for (const OrderedJson& layer : layers) {
      if (!layer.is_number_integer()) {
        return Malformed("layers_to_transform", layers, "expected layer indices");
      }
      config->layers_to_transform.push_back(layer.get<int64_t>());
    }
  } else if (!layers.is_null()) {
    return Malformed("layers_to_transform", layers, "expected a layer index, a list or null");
  }
  if (pattern.is_array()) {
    ASSIGN_OR_RETURN(config->layers_pattern, ReadNames("layers_pattern", pattern));
  } else if (pattern.is_string()) {
    if (!IsOff(pattern)) config->layers_pattern.push_back(pattern.get<std::string>());
  } else if (!pattern.is_null()) {
    return Malformed("layers_pattern", pattern, "expected a name, a list of names or null");
  }
  // PEFT refuses these pairs, too.
  const bool by_name = std::holds_alternative<ModuleNames>(config->target_modules) ||
                       std::holds_alternative<DefaultTargets>(config->target_modules);
  if (!by_name && !layers.is_null()) {
    return Malformed("layers_to_transform", layers,
                     "cannot be used when target_modules is a string");
  }
  if (!config->layers_pattern.empty() && layers.is_null()) {
    return Malformed("layers_pattern", pattern, "needs layers_to_transform");
  }
  return OkStatus();
}

Result<std::vector<int32_t>> ReadInvocation(const OrderedJson& json) {
  constexpr std::string_view kKey = "alora_invocation_tokens";
  const OrderedJson& value = Value(json, kKey);
  std::vector<int32_t> tokens;
  if (value.is_null()) return tokens;
  const std::string wanted =
      "expected a list of 1 to " + std::to_string(kInvocationTokensMax) + " token ids, or null";
  if (!value.is_array() || value.empty() || value.size() > size_t{kInvocationTokensMax}) {
    return Malformed(kKey, value, wanted);
  }
  for (const OrderedJson& token : value) {
    if (!token.is_number_integer()) return Malformed(kKey, value, wanted);
    const int64_t id = token.get<int64_t>();
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) return Malformed(kKey, value, wanted);
    tokens.push_back(static_cast<int32_t>(id));
  }
  return tokens;
}

Result<PeftConfig> ReadConfig(const OrderedJson& json) {
  RETURN_IF_ERROR(CheckType(json));
  RETURN_IF_ERROR(CheckKeys(json, kKnownKeys, kUnappliedKeys));
  RETURN_IF_ERROR(CheckTask(json));
  RETURN_IF_ERROR(CheckBias(json));
  RETURN_IF_ERROR(CheckInit(json));

  PeftConfig config;
  ASSIGN_OR_RETURN(config.base_model, ReadText(json, "base_model_name_or_path"));
  ASSIGN_OR_RETURN(config.peft_version, ReadText(json, "peft_version"));
  // Without defaults: alpha's changed between versions.
  ASSIGN_OR_RETURN(config.rank, ReadRank("r", Value(json, "r")));
  ASSIGN_OR_RETURN(config.alpha, ReadAlpha("lora_alpha", Value(json, "lora_alpha")));
  ASSIGN_OR_RETURN(config.rank_stabilized, ReadBool(json, "use_rslora"));
  ASSIGN_OR_RETURN(config.fan_in_fan_out, ReadBool(json, "fan_in_fan_out"));
  RETURN_IF_ERROR(ReadPattern<int32_t>(json, "rank_pattern", ReadRank, &config.rank_pattern));
  RETURN_IF_ERROR(ReadPattern<double>(json, "alpha_pattern", ReadAlpha, &config.alpha_pattern));
  RETURN_IF_ERROR(ReadTargets(json, &config));
  RETURN_IF_ERROR(ReadExcluded(json, &config));
  RETURN_IF_ERROR(ReadLayers(json, &config));
  ASSIGN_OR_RETURN(config.invocation_tokens, ReadInvocation(json));
  return config;
}

}  // namespace

Result<PeftConfig> ParsePeftConfig(std::string_view text) {
  ASSIGN_OR_RETURN(const OrderedJson json, peft_json::Parse(text));
  return ReadConfig(json);
}

}  // namespace graft
