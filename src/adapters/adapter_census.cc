#include "adapters/adapter_census.h"

#include <algorithm>
#include <utility>

#include "adapters/peft_config.h"
#include "adapters/peft_modules.h"
#include "adapters/prompt_config.h"
#include "base/json.h"
#include "base/strings.h"
#include "model/config.h"
#include "model/config_fields.h"
#include "model/wrapper.h"

namespace graft {
namespace {

// What a census adds to an adapter's config.
constexpr std::string_view kCensusKeys[] = {"n",
                                            "where",
                                            "base_class",
                                            "base_config",
                                            "base_quant",
                                            "base_given_as_local_path",
                                            "family",
                                            "generation",
                                            "scope",
                                            "reasons",
                                            "peft_version_by_keys",
                                            "other_non_default",
                                            "unknown_to_graft"};

std::string TextOf(const Json& line, std::string_view key) {
  const auto value = line.find(key);
  return value != line.end() && value->is_string() ? value->get<std::string>() : "";
}

// "GPT2LMHeadModel" of "GPT2LMHeadModel?": a census may be in doubt, or say more behind the name.
std::string ClassOf(const Json& line) {
  const std::string text = TextOf(line, "base_class");
  const auto end = std::find_if_not(text.begin(), text.end(),
                                    [](char c) { return IsAsciiAlnum(c) || c == '_'; });
  return {text.begin(), end};
}

// Sizes under all names that HF's classes have for them; a class reads its own. Those of a wrapper
// are its text's, which is the first kind that it may hold: all of them have the same modules.
Json ConfigOfClass(const std::string& name) {
  const Json base = {{"architectures", {name}}};
  Json sizes = {{"vocab_size", 1024},
                {"hidden_size", 128},
                {"n_embd", 128},
                {"intermediate_size", 128},
                {"num_hidden_layers", kCensusLayers},
                {"num_layers", kCensusLayers},
                {"n_layer", kCensusLayers},
                {"num_attention_heads", 4},
                {"num_heads", 4},
                {"num_key_value_heads", 4},
                {"n_head", 4},
                {"attention_types", {{{"global", "local"}, kCensusLayers / 2}}},
                {"max_position_embeddings", 1024},
                {"n_positions", 1024}};
  const ModelWrapper* const wrapper = FindWrapper(ConfigFields(base, ""));
  if (wrapper != nullptr) {
    sizes["model_type"] = wrapper->texts.front().model_type;
    sizes = {{"text_config", std::move(sizes)}};
  }
  sizes.update(base);
  return sizes;
}

Result<ModelConfig> BaseOf(const Json& line, const std::string& base_class) {
  const auto config = line.find("base_config");
  if (config != line.end() && !config->is_null()) return ParseModelConfig(*config);
  if (base_class.empty()) {
    return InvalidArgumentError(
        "the base's class is not known: give base_class (\"LlamaForCausalLM\") or base_config");
  }
  return ParseModelConfig(ConfigOfClass(base_class));
}

// The keys of adapter_config.json. What the census says to be there without its value is refused by
// its name.
Json AdapterConfigOf(const Json& line) {
  Json config = Json::object();
  for (const auto& [key, value] : line.items()) {
    if (std::ranges::find(kCensusKeys, key) != std::end(kCensusKeys)) continue;
    if (value != false) config[key] = value;
  }
  const auto unknown = line.find("unknown_to_graft");
  if (unknown == line.end() || !unknown->is_array()) return config;
  for (const Json& key : *unknown) {
    if (key.is_string()) config[key.get<std::string>()] = true;
  }
  return config;
}

Status TryAdapter(const std::string& text, const ModelConfig& base) {
  if (IsPromptConfig(text)) return ParsePromptConfig(text, base).status();
  ASSIGN_OR_RETURN(const PeftConfig peft, ParsePeftConfig(text));
  return ResolveLoraTargets(peft, base).status();
}

Status Try(const Json& line, const std::string& base_class) {
  ASSIGN_OR_RETURN(const ModelConfig base, BaseOf(line, base_class));
  return TryAdapter(DumpJson(AdapterConfigOf(line)), base);
}

}  // namespace

CensusVerdict TryCensusLine(std::string_view line) {
  CensusVerdict verdict;
  const Result<Json> json = ParseJson(line);
  if (!json.ok() || !json->is_object()) {
    verdict.status = json.ok() ? InvalidArgumentError("expected a JSON object") : json.status();
    return verdict;
  }
  verdict.name = TextOf(*json, "base_model_name_or_path");
  verdict.base_class = ClassOf(*json);
  verdict.base_quant = TextOf(*json, "base_quant");
  verdict.status = Try(*json, verdict.base_class);
  return verdict;
}

}  // namespace graft
