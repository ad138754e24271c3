#include "adapters/prompt_config.h"

#include "adapters/peft_json.h"

namespace graft {
namespace {

using peft_json::Value;

// From PEFT's PromptTuningConfig, PromptEncoderConfig and PrefixTuningConfig. Whatever made the
// vectors while they were trained, the file holds what came out.
constexpr std::string_view kPromptKeys[] = {
    // Read below.
    "peft_type", "task_type", "base_model_name_or_path", "peft_version", "num_virtual_tokens",
    "token_dim", "num_layers", "num_attention_heads", "num_transformer_submodules",
    // About training, provenance or loading.
    "auto_mapping", "revision", "inference_mode", "prompt_tuning_init", "prompt_tuning_init_text",
    "prompt_tuning_init_state_dict_path", "tokenizer_name_or_path", "tokenizer_kwargs",
    "encoder_reparameterization_type", "encoder_hidden_size", "encoder_num_layers",
    "encoder_dropout", "prefix_projection", "init_weights"};

std::string TypeOf(const OrderedJson& json) {
  const OrderedJson& type = Value(json, "peft_type");
  return type.is_string() ? type.get<std::string>() : "";
}

bool IsPromptType(const std::string& type) {
  return type == "PROMPT_TUNING" || type == "P_TUNING" || type == "PREFIX_TUNING";
}

// A size that the file may leave out: the tensor has it, too.
Status CheckSize(const OrderedJson& json, std::string_view key, int64_t wanted,
                 std::string_view what) {
  const OrderedJson& value = Value(json, key);
  if (value.is_null() || (value.is_number_integer() && value.get<int64_t>() == wanted)) {
    return OkStatus();
  }
  return peft_json::Malformed(key, value,
                              "this model has " + std::to_string(wanted) + " " + std::string(what) +
                                  ": the adapter was made for another base");
}

Result<int32_t> ReadNumTokens(const OrderedJson& json) {
  const OrderedJson& value = Value(json, "num_virtual_tokens");
  const bool is_count = value.is_number_integer() && value.get<int64_t>() >= 1 &&
                        value.get<int64_t>() <= kVirtualTokensMax;
  if (is_count) return value.get<int32_t>();
  return peft_json::Malformed("num_virtual_tokens", value,
                              "it is an integer from 1 to " + std::to_string(kVirtualTokensMax));
}

}  // namespace

bool IsPromptConfig(std::string_view text) {
  const Result<OrderedJson> json = peft_json::Parse(text);
  return json.ok() && IsPromptType(TypeOf(*json));
}

Result<PromptConfig> ParsePromptConfig(std::string_view text, const ModelConfig& model) {
  ASSIGN_OR_RETURN(const OrderedJson json, peft_json::Parse(text));
  const std::string type = TypeOf(json);
  if (!IsPromptType(type)) {
    return peft_json::Malformed("peft_type", Value(json, "peft_type"),
                                "a prompt is \"PROMPT_TUNING\", \"P_TUNING\" or \"PREFIX_TUNING\"");
  }
  RETURN_IF_ERROR(peft_json::CheckKeys(json, kPromptKeys, {&peft_json::kModulesToSave, 1}));
  RETURN_IF_ERROR(peft_json::CheckTask(json));
  PromptConfig config;
  ASSIGN_OR_RETURN(config.base_model, peft_json::ReadText(json, "base_model_name_or_path"));
  ASSIGN_OR_RETURN(config.peft_version, peft_json::ReadText(json, "peft_version"));
  ASSIGN_OR_RETURN(config.num_tokens, ReadNumTokens(json));
  RETURN_IF_ERROR(CheckSize(json, "num_transformer_submodules", 1, "stack of layers"));
  RETURN_IF_ERROR(CheckSize(json, "num_layers", model.num_layers, "layers"));
  if (type != "PREFIX_TUNING") {
    RETURN_IF_ERROR(CheckSize(json, "token_dim", model.hidden_size, "elements in a hidden state"));
    return config;
  }
  config.kind = VirtualTokenKind::kKeysValues;
  RETURN_IF_ERROR(CheckSize(json, "num_attention_heads", model.num_kv_heads, "heads of keys"));
  RETURN_IF_ERROR(
      CheckSize(json, "token_dim", model.kv_size(), "elements in a position's keys of a layer"));
  return config;
}

}  // namespace graft
