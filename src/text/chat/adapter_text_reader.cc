#include "text/chat/adapter_text_reader.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "text/sentencepiece_model.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_convert.h"
#include "text/tokenizer_json_reader.h"

namespace graft {
namespace {

using TokenList = std::vector<std::pair<std::string, int64_t>>;

constexpr char kTokenizerConfig[] = "tokenizer_config.json";
constexpr char kSpecialTokens[] = "special_tokens_map.json";
constexpr char kAddedTokens[] = "added_tokens.json";
constexpr char kGenerationConfig[] = "generation_config.json";
constexpr size_t kStopTokensMax = 64;
constexpr size_t kVerdictsMax = 64;

constexpr char kWayOut[] =
    "; --adapter-text base serves the adapter with the base's texts whatever lies beside it";

Status OtherVocabulary(const std::string& file, const std::string& what) {
  return InvalidArgumentError(file + ": " + what +
                              ": the adapter was trained with another vocabulary, which is not "
                              "served" +
                              kWayOut);
}

// An object; nothing where there is no file.
Result<std::optional<Json>> ReadObject(const ReadBesideAdapter& read, const std::string& file) {
  ASSIGN_OR_RETURN(const std::optional<std::string> text, read(file));
  if (!text.has_value()) return std::optional<Json>();
  Result<Json> json = ParseJson(*text);
  if (!json.ok()) return json.status().WithContext(file);
  if (!json->is_object()) return InvalidArgumentError(file + " must hold an object");
  return std::optional<Json>(*std::move(json));
}

// Without what white space around a template and the ends of its lines make of it.
std::string WithoutEnds(std::string_view text) {
  std::string lines;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r' || text.substr(i + 1, 1) != "\n") lines += text[i];
  }
  return std::string(Trimmed(lines, " \t\r\n"));
}

// {"<token>": id, ...}; -1 for what is no id.
TokenList ListOf(const Json& ids) {
  TokenList list;
  for (const auto& [token, id] : ids.items()) {
    list.emplace_back(token, id.is_number_integer() ? id.get<int64_t>() : -1);
  }
  return list;
}

TokenList ListOf(const std::vector<AddedToken>& tokens) {
  TokenList list;
  for (const AddedToken& token : tokens) list.emplace_back(token.content, token.id);
  return list;
}

}  // namespace

Result<std::unique_ptr<AdapterTextReader>> AdapterTextReader::Load(
    const std::string& model_dir, std::vector<int32_t> eos_token_ids, int32_t vocab_size) {
  std::unique_ptr<AdapterTextReader> reader(new AdapterTextReader);
  reader->model_dir_ = model_dir;
  reader->eos_token_ids_ = std::move(eos_token_ids);
  reader->vocab_size_ = vocab_size;
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Load(model_dir);
  if (tokenizer.ok()) {
    reader->tokenizer_ = *std::move(tokenizer);
  } else if (tokenizer.status().code() != StatusCode::kNotFound) {
    return tokenizer.status();
  }
  const Result<TokenizerConfig> config = LoadTokenizerConfig(model_dir);
  if (config.ok()) {
    reader->special_tokens_.insert(config->special_tokens.begin(), config->special_tokens.end());
  } else if (IsPassing(config.status())) {
    return config.status();
  }
  // One that cannot be used is no template that an adapter's could equal.
  Result<ChatTemplateSource> templates = FindChatTemplateIn(model_dir);
  if (templates.ok()) {
    reader->templates_ = *std::move(templates);
  } else if (IsPassing(templates.status())) {
    return templates.status();
  }
  return reader;
}

Result<AdapterTextPtr> AdapterTextReader::Read(const ReadBesideAdapter& read) const {
  AdapterText text;
  RETURN_IF_ERROR(ReadTemplate(read, &text));
  RETURN_IF_ERROR(ReadTokens(read, &text));
  RETURN_IF_ERROR(ReadEos(read, &text));
  std::sort(text.stop_token_ids.begin(), text.stop_token_ids.end());
  return ShareAdapterText(std::move(text));
}

Status AdapterTextReader::ReadTemplate(const ReadBesideAdapter& read, AdapterText* text) const {
  ASSIGN_OR_RETURN(ChatTemplateSource found, FindChatTemplate(read));
  if (!found.error.empty()) {
    text->template_error = found.file + ": " + found.error;
    return OkStatus();
  }
  if (!found.all.has_value() || WithoutEnds(*found.all).empty()) return OkStatus();
  // What was saved by tools that know of one template alone has none for tools.
  const bool is_base = WithoutEnds(*found.all) == WithoutEnds(templates_.all.value_or("")) &&
                       (found.with_tools.empty() ||
                        WithoutEnds(found.with_tools) == WithoutEnds(templates_.with_tools));
  if (is_base) return OkStatus();
  text->chat_template = std::move(*found.all);
  text->tool_template = std::move(found.with_tools);
  return OkStatus();
}

// A token that templates know by the field's name, unless it is the base's.
Status AdapterTextReader::TakeToken(const std::string& file, const char* field,
                                    const std::string& token, const std::string& of_base,
                                    std::string* out) const {
  if (token.empty() || token == of_base) return OkStatus();
  if (!tokenizer_->TokenId(token).has_value()) {
    return OtherVocabulary(file, std::string(field) + " '" + token + "' is no token of the base");
  }
  *out = token;
  return OkStatus();
}

Status AdapterTextReader::ReadTokens(const ReadBesideAdapter& read, AdapterText* text) const {
  if (tokenizer_ == nullptr) return OkStatus();
  TokenizerConfig config;
  for (const char* const file : {kTokenizerConfig, kSpecialTokens}) {
    ASSIGN_OR_RETURN(const std::optional<Json> json, ReadObject(read, file));
    if (!json.has_value()) continue;
    const size_t num_before = config.special_tokens.size();
    RETURN_IF_ERROR(config.Merge(*json).WithContext(file));
    // They have no ids here: a base that lacks one would spell it out.
    for (size_t i = num_before; i < config.special_tokens.size(); ++i) {
      const std::string& token = config.special_tokens[i];
      if (tokenizer_->TokenId(token).has_value() || special_tokens_.contains(token)) continue;
      return OtherVocabulary(
          file, "the special token '" + token.substr(0, 100) + "' is no token of the base");
    }
  }
  RETURN_IF_ERROR(CheckTokens(kTokenizerConfig, ListOf(config.added_tokens)));
  ASSIGN_OR_RETURN(const std::optional<Json> added, ReadObject(read, kAddedTokens));
  if (added.has_value()) RETURN_IF_ERROR(CheckTokens(kAddedTokens, ListOf(*added)));
  RETURN_IF_ERROR(TakeToken(kTokenizerConfig, "bos_token", config.bos_token,
                            tokenizer_->bos_token(), &text->bos_token));
  RETURN_IF_ERROR(TakeToken(kTokenizerConfig, "eos_token", config.eos_token,
                            tokenizer_->eos_token(), &text->eos_token));
  if (!text->eos_token.empty()) AddStop(*tokenizer_->TokenId(text->eos_token), text);
  return OkStatus();
}

Status AdapterTextReader::ReadEos(const ReadBesideAdapter& read, AdapterText* text) const {
  ASSIGN_OR_RETURN(const std::optional<Json> json, ReadObject(read, kGenerationConfig));
  if (!json.has_value()) return OkStatus();
  const Json eos = json->value("eos_token_id", Json());
  if (eos.is_null()) return OkStatus();
  const Json ids = eos.is_array() ? eos : Json::array({eos});
  const auto is_token = [&](const Json& id) {
    return id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() < vocab_size_;
  };
  if (ids.size() > kStopTokensMax || !std::all_of(ids.begin(), ids.end(), is_token)) {
    return InvalidArgumentError(std::string(kGenerationConfig) + ": eos_token_id " +
                                DumpJson(eos).substr(0, 100) + " is no list of at most " +
                                std::to_string(kStopTokensMax) +
                                " tokens of the base, whose vocabulary ends at " +
                                std::to_string(vocab_size_ - 1) + kWayOut);
  }
  for (const Json& id : ids) AddStop(id.get<int32_t>(), text);
  return OkStatus();
}

void AdapterTextReader::AddStop(int32_t token, AdapterText* text) const {
  const auto has = [&](const std::vector<int32_t>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  if (!has(eos_token_ids_) && !has(text->stop_token_ids)) text->stop_token_ids.push_back(token);
}

Status AdapterTextReader::CheckTokens(const std::string& file, const TokenList& tokens) const {
  for (const auto& [token, id] : tokens) {
    const std::optional<int32_t> of_base = tokenizer_->TokenId(token);
    if (of_base.has_value() && *of_base == id) continue;
    return OtherVocabulary(file, "'" + token.substr(0, 100) + "' is token " + std::to_string(id) +
                                     ", the base has " +
                                     (of_base.has_value() ? "it as " + std::to_string(*of_base)
                                                          : std::string("no such token")));
  }
  return OkStatus();
}

Status AdapterTextReader::CheckVocabulary(const ReadBesideAdapter& read) const {
  if (tokenizer_ == nullptr) return OkStatus();
  for (const char* const file : {"tokenizer.json", "tokenizer.model", "vocab.json"}) {
    ASSIGN_OR_RETURN(const std::optional<std::string> bytes, read(file));
    if (!bytes.has_value()) continue;
    return CheckFile(file, *bytes);
  }
  return OkStatus();
}

Status AdapterTextReader::CheckFile(const std::string& file, const std::string& bytes) const {
  const std::string key = file + " " + Sha256Of(bytes);
  {
    const std::lock_guard lock(mutex_);
    const auto known = verdicts_.find(key);
    if (known != verdicts_.end()) return known->second;
  }
  // A base's file that cannot be read at the moment tells nothing that could be remembered.
  const Result<std::string> own = ReadFile(model_dir_ + "/" + file);
  if (!own.ok() && own.status().code() != StatusCode::kNotFound) return own.status();
  Status verdict;
  if (own.ok() && *own == bytes) {
    verdict = OkStatus();
  } else if (file == "tokenizer.json") {
    verdict = CheckTokenizerJson(file, bytes, own);
  } else if (file == "tokenizer.model") {
    verdict = CheckModelFile(file, bytes);
  } else {
    verdict = CheckVocabJson(file, bytes);
  }
  const std::lock_guard lock(mutex_);
  if (verdicts_.size() >= kVerdictsMax) verdicts_.clear();
  verdicts_[key] = verdict;
  return verdict;
}

Status AdapterTextReader::CheckTokenizerJson(const std::string& file, const std::string& bytes,
                                             const Result<std::string>& own) const {
  const Result<TokenizerJson> json = ReadTokenizerJson(bytes);
  if (!json.ok()) return json.status().WithContext(file);
  TokenList added;
  for (const Json& token : json->rest.value("added_tokens", Json::array())) {
    if (!token.is_object() || !token.contains("id") || !token["id"].is_number_integer()) continue;
    ASSIGN_OR_RETURN(const AddedToken one, ParseAddedToken(token, token["id"].get<int64_t>()));
    added.emplace_back(one.content, one.id);
  }
  RETURN_IF_ERROR(CheckTokens(file, added));
  if (!json->vocabulary.has_value()) return OkStatus();
  // A word of the vocabulary that is an added token as well goes by the latter's id.
  std::set<std::string_view> names;
  for (const auto& [token, id] : added) names.insert(token);
  TokenList words;
  for (const auto& [token, id] : *json->vocabulary) {
    if (!names.contains(token)) words.emplace_back(token, id);
  }
  RETURN_IF_ERROR(CheckTokens(file, words));
  const Result<TokenizerJson> base = own.ok() ? ReadTokenizerJson(*own) : own.status();
  if (!base.ok() || !base->merges.has_value() || !json->merges.has_value() ||
      *base->merges == *json->merges) {
    return OkStatus();
  }
  return OtherVocabulary(file, "its merges are not the base's");
}

Status AdapterTextReader::CheckModelFile(const std::string& file, const std::string& bytes) const {
  if (IsTiktoken(bytes)) {
    const Result<TokenizerJson> json = ConvertTiktoken(bytes, TokenizerConfig());
    if (!json.ok()) return json.status().WithContext(file);
    return CheckTokens(file, json->vocabulary.value_or(TokenList()));
  }
  const Result<TokenizerParts> parts = ParseSentencePieceModel(bytes, TokenizerConfig());
  if (!parts.ok()) return parts.status().WithContext(file);
  TokenList pieces;
  for (int32_t id = 0; id < parts->model->size(); ++id) {
    pieces.emplace_back(parts->model->Token(id), id);
  }
  return CheckTokens(file, pieces);
}

Status AdapterTextReader::CheckVocabJson(const std::string& file, const std::string& bytes) const {
  const Result<Json> json = ParseJson(bytes);
  if (!json.ok()) return json.status().WithContext(file);
  if (!json->is_object()) return InvalidArgumentError(file + " must hold an object");
  return CheckTokens(file, ListOf(*json));
}

}  // namespace graft
