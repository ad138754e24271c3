#include "cli/merged_texts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"

namespace graft {
namespace {

constexpr char kTemplate[] = "chat_template.jinja";
constexpr char kToolTemplate[] = "additional_chat_templates/tool_use.jinja";
constexpr char kTokenizerConfig[] = "tokenizer_config.json";
constexpr char kSpecialTokens[] = "special_tokens_map.json";
constexpr char kGenerationConfig[] = "generation_config.json";
constexpr char kStops[] = "eos_token_id";

// An empty object where there is no file.
Result<OrderedJson> ReadObject(const std::string& path) {
  if (!FileExists(path)) return OrderedJson(OrderedJson::object());
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  Result<OrderedJson> json = ParseOrderedJson(text);
  if (!json.ok()) return json.status().WithContext(path);
  if (!json->is_object()) return InvalidArgumentError(path + " must hold an object");
  return json;
}

std::string Written(const OrderedJson& json) { return json.dump(2) + "\n"; }

void SetTokens(const AdapterText& text, OrderedJson* json) {
  if (!text.bos_token.empty()) (*json)["bos_token"] = text.bos_token;
  if (!text.eos_token.empty()) (*json)["eos_token"] = text.eos_token;
}

// generation_config.json: its end tokens hold in place of config.json's.
Result<std::string> WithStops(const std::string& path, const ModelConfig& config,
                              const AdapterText& text) {
  std::vector<int32_t> stops = config.eos_token_ids;
  stops.insert(stops.end(), text.stop_token_ids.begin(), text.stop_token_ids.end());
  if (stops.size() > kEosTokensMax) {
    return InvalidArgumentError("the base and the adapter have " + std::to_string(stops.size()) +
                                " tokens that end an answer, a model has at most " +
                                std::to_string(kEosTokensMax));
  }
  ASSIGN_OR_RETURN(OrderedJson json, ReadObject(path));
  json[kStops] = stops;
  return Written(json);
}

}  // namespace

Result<MergedTexts> MergeTexts(const std::string& model_dir, const ModelConfig& config,
                               const AdapterText& text) {
  MergedTexts texts;
  const bool names_tokens = !text.bos_token.empty() || !text.eos_token.empty();
  if (text.brings_template() || names_tokens) {
    ASSIGN_OR_RETURN(OrderedJson json, ReadObject(model_dir + "/" + kTokenizerConfig));
    if (text.brings_template()) json.erase("chat_template");
    SetTokens(text, &json);
    texts[kTokenizerConfig] = Written(json);
  }
  if (text.brings_template()) {
    texts[kTemplate] = text.chat_template;
    texts[kToolTemplate] =
        text.tool_template.empty() ? std::nullopt : std::optional(text.tool_template);
  }
  const std::string special = model_dir + "/" + kSpecialTokens;
  if (names_tokens && FileExists(special)) {
    ASSIGN_OR_RETURN(OrderedJson json, ReadObject(special));
    SetTokens(text, &json);
    texts[kSpecialTokens] = Written(json);
  }
  if (!text.stop_token_ids.empty()) {
    ASSIGN_OR_RETURN(texts[kGenerationConfig],
                     WithStops(model_dir + "/" + kGenerationConfig, config, text));
  }
  return texts;
}

std::string TellTexts(const AdapterText& text) {
  std::string told;
  const auto add = [&told](const std::string& what) { told += (told.empty() ? "" : ", ") + what; };
  if (text.brings_template()) add("its chat template");
  if (!text.bos_token.empty()) add("its bos_token " + text.bos_token);
  if (!text.eos_token.empty()) add("its eos_token " + text.eos_token);
  if (!text.stop_token_ids.empty()) {
    add("tokens " + OrderedJson(text.stop_token_ids).dump() + " end its answers");
  }
  return told;
}

}  // namespace graft
