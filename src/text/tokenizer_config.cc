#include "text/tokenizer_config.h"

#include <charconv>
#include <limits>

#include "base/file.h"
#include "text/json_field.h"

namespace graft {
namespace {

// A token written as "x" or as {"content": "x", ...}; "" where absent, null or neither.
std::string TokenContent(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_object()) return "";
  const auto content = found->find("content");
  return content != found->end() && content->is_string() ? content->get<std::string>() : "";
}

void FillFrom(const Json& json, const char* key, std::string* field) {
  if (field->empty()) *field = TokenContent(json, key);
}

Status FillFrom(const Json& json, const char* key, std::optional<bool>* field) {
  if (field->has_value() || json.value(key, Json()).is_null()) return OkStatus();
  ASSIGN_OR_RETURN(*field, BoolField(json, key, false));
  return OkStatus();
}

void CollectTokens(const Json& json, const char* key, std::vector<std::string>* tokens) {
  const auto list = json.find(key);
  if (list == json.end() || !list->is_array()) return;
  for (const Json& member : *list) {
    const std::string content = TokenContent(Json{{"token", member}}, "token");
    if (!content.empty()) tokens->push_back(content);
  }
}

// {"32000": {"content": ...}, ...}
Status CollectAddedTokens(const Json& json, std::vector<AddedToken>* tokens) {
  const auto map = json.find("added_tokens_decoder");
  if (map == json.end() || map->is_null()) return OkStatus();
  if (!map->is_object()) return InvalidArgumentError("added_tokens_decoder must be an object");
  for (const auto& [key, value] : map->items()) {
    int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size()) {
      return InvalidArgumentError("added_tokens_decoder: '" + key + "' is not an id");
    }
    ASSIGN_OR_RETURN(AddedToken token, ParseAddedToken(value, id));
    tokens->push_back(std::move(token));
  }
  return OkStatus();
}

Status MergeFile(const std::string& path, TokenizerConfig* config) {
  if (!FileExists(path)) return OkStatus();
  ASSIGN_OR_RETURN(const Json json, ParseJsonFile(path));
  return config->Merge(json).WithContext(path);
}

// {"<token>": id, ...}
Status MergeAddedTokensFile(const std::string& path, TokenizerConfig* config) {
  if (!FileExists(path)) return OkStatus();
  ASSIGN_OR_RETURN(const Json json, ParseJsonFile(path));
  if (!json.is_object()) return InvalidArgumentError(path + " must hold an object");
  for (const auto& [content, id] : json.items()) {
    if (!id.is_number_integer()) return InvalidArgumentError(path + ": ids must be whole numbers");
    ASSIGN_OR_RETURN(AddedToken token,
                     ParseAddedToken(Json{{"content", content}}, id.get<int64_t>()));
    config->added_tokens.push_back(std::move(token));
  }
  return OkStatus();
}

}  // namespace

Result<AddedToken> ParseAddedToken(const Json& json, int64_t id) {
  if (!json.is_object()) return InvalidArgumentError("an added token must be an object");
  AddedToken token;
  ASSIGN_OR_RETURN(token.content, StringField(json, "content", ""));
  if (id < 0 || id >= std::numeric_limits<int32_t>::max()) {
    return InvalidArgumentError("added token '" + token.content + "' has id " + std::to_string(id));
  }
  token.id = static_cast<int32_t>(id);
  ASSIGN_OR_RETURN(token.special, BoolField(json, "special", false));
  ASSIGN_OR_RETURN(token.normalized, BoolField(json, "normalized", !token.special));
  ASSIGN_OR_RETURN(token.single_word, BoolField(json, "single_word", false));
  ASSIGN_OR_RETURN(token.lstrip, BoolField(json, "lstrip", false));
  ASSIGN_OR_RETURN(token.rstrip, BoolField(json, "rstrip", false));
  return token;
}

Status TokenizerConfig::Merge(const Json& json) {
  if (!json.is_object()) return InvalidArgumentError("must hold an object");
  FillFrom(json, "bos_token", &bos_token);
  FillFrom(json, "eos_token", &eos_token);
  FillFrom(json, "unk_token", &unk_token);
  FillFrom(json, "pad_token", &pad_token);
  RETURN_IF_ERROR(FillFrom(json, "add_bos_token", &add_bos_token));
  RETURN_IF_ERROR(FillFrom(json, "add_eos_token", &add_eos_token));
  if (tokenizer_class.empty()) {
    ASSIGN_OR_RETURN(tokenizer_class, StringField(json, "tokenizer_class", ""));
  }
  RETURN_IF_ERROR(FillFrom(json, "legacy", &legacy));
  RETURN_IF_ERROR(FillFrom(json, "add_prefix_space", &add_prefix_space));
  CollectTokens(json, "additional_special_tokens", &special_tokens);
  CollectTokens(json, "extra_special_tokens", &special_tokens);
  return CollectAddedTokens(json, &added_tokens);
}

bool TokenizerConfig::IsLlamaFamily() const {
  return tokenizer_class.starts_with("LlamaTokenizer") ||
         tokenizer_class.starts_with("CodeLlamaTokenizer") ||
         tokenizer_class.starts_with("GemmaTokenizer");
}

bool TokenizerConfig::RebuildsLlama() const {
  return rules == TokenizerRules::kTransformers5 &&
         (tokenizer_class == "LlamaTokenizer" || tokenizer_class == "LlamaTokenizerFast");
}

std::string TokenizerConfig::PrependScheme() const {
  if (!add_prefix_space.value_or(true)) return "never";
  return legacy.value_or(false) ? "always" : "first";
}

Result<TokenizerConfig> LoadTokenizerConfig(const std::string& model_dir) {
  TokenizerConfig config;
  RETURN_IF_ERROR(MergeFile(model_dir + "/tokenizer_config.json", &config));
  RETURN_IF_ERROR(MergeFile(model_dir + "/special_tokens_map.json", &config));
  RETURN_IF_ERROR(MergeAddedTokensFile(model_dir + "/added_tokens.json", &config));
  return config;
}

}  // namespace graft
