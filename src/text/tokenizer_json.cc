#include "text/tokenizer_json.h"

#include <algorithm>
#include <set>

#include "text/bpe_model.h"
#include "text/json_field.h"
#include "text/post_processor.h"

namespace graft {
namespace {

// Fields of a BPE model that must be absent, null, zero or "".
Status RefuseUnsupportedFields(const Json& model) {
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json field = model.value(key, Json());
    const bool unused = field.is_null() ||
                        (field.is_string() && field.get<std::string>().empty()) ||
                        (field.is_number() && field.get<double>() == 0);
    if (!unused) {
      return UnimplementedError("model BPE with '" + std::string(key) + "' is not supported");
    }
  }
  return OkStatus();
}

Result<std::unique_ptr<TokenModel>> ParseModel(TokenizerJson file) {
  const Json json = file.rest.value("model", Json());
  if (!json.is_object()) return InvalidArgumentError("there is no object 'model'");
  // Old files leave the type out; what has merges is BPE.
  ASSIGN_OR_RETURN(const std::string type,
                   StringField(json, "type", file.merges.has_value() ? "BPE" : ""));
  if (type != "BPE") return UnsupportedComponent("model", type, "BPE");
  RETURN_IF_ERROR(RefuseUnsupportedFields(json));
  if (!file.vocabulary.has_value()) return InvalidArgumentError("model has no object 'vocab'");
  if (!file.merges.has_value()) return InvalidArgumentError("model has no list 'merges'");
  BpeSpec spec{.vocabulary = *std::move(file.vocabulary), .merges = *std::move(file.merges)};
  ASSIGN_OR_RETURN(const std::string unk_token, StringField(json, "unk_token", ""));
  if (!unk_token.empty()) spec.unk_token = unk_token;
  ASSIGN_OR_RETURN(spec.fuse_unk, BoolField(json, "fuse_unk", false));
  ASSIGN_OR_RETURN(spec.byte_fallback, BoolField(json, "byte_fallback", false));
  ASSIGN_OR_RETURN(spec.ignore_merges, BoolField(json, "ignore_merges", false));
  ASSIGN_OR_RETURN(std::unique_ptr<TokenModel> model, BpeModel::Build(std::move(spec)));
  return model;
}

Result<std::vector<AddedToken>> ParseAddedTokens(const Json& json) {
  std::vector<AddedToken> tokens;
  if (json.is_null()) return tokens;
  if (!json.is_array()) return InvalidArgumentError("'added_tokens' must be a list");
  for (const Json& member : json) {
    if (!member.is_object()) return InvalidArgumentError("an added token must be an object");
    ASSIGN_OR_RETURN(const int64_t id, IntField(member, "id", -1));
    ASSIGN_OR_RETURN(AddedToken token, ParseAddedToken(member, id));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// LlamaTokenizer writes its own post-processor over the file's.
Status ApplyLlamaConfig(const TokenizerConfig& config, TokenizerParts* parts) {
  const bool decides = config.add_bos_token.has_value() || config.add_eos_token.has_value();
  if (!config.IsLlamaFamily() || !decides) return OkStatus();
  const auto ids_of = [&](const std::string& token) -> Result<std::vector<int32_t>> {
    const AddedToken* added = parts->added_tokens.Find(token);
    if (added != nullptr) return std::vector<int32_t>{added->id};
    const std::optional<int32_t> id = parts->model->TokenId(token);
    if (id.has_value()) return std::vector<int32_t>{*id};
    return InvalidArgumentError("token '" + token +
                                "' of tokenizer_config.json is not in the vocabulary");
  };
  parts->prefix_ids.clear();
  parts->suffix_ids.clear();
  if (config.add_bos_token.value_or(true)) {
    ASSIGN_OR_RETURN(parts->prefix_ids, ids_of(config.bos_token));
  }
  if (config.add_eos_token.value_or(false)) {
    ASSIGN_OR_RETURN(parts->suffix_ids, ids_of(config.eos_token));
  }
  return OkStatus();
}

// What transformers 5 makes of a LlamaTokenizer: it takes the vocabulary and the merges of the
// file, and has its own mind about the rest.
void RebuildLlama(const TokenizerConfig& config, Json* rest) {
  const bool adds_space = config.add_prefix_space.value_or(true);
  const Json to_space = {
      {"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}};
  Json decoders = {to_space, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (adds_space) {
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  (*rest)["normalizer"] = nullptr;
  (*rest)["pre_tokenizer"] = {{"type", "Metaspace"},
                              {"replacement", "\u2581"},
                              {"prepend_scheme", config.PrependScheme()},
                              {"split", false}};
  (*rest)["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
  Json& model = (*rest)["model"];
  if (!model.is_object()) return;  // refused later, by name
  model["fuse_unk"] = true;
  model["byte_fallback"] = true;
  model["ignore_merges"] = false;
}

}  // namespace

Result<AddedTokens> JoinAddedTokens(std::vector<AddedToken> tokens, const TokenizerConfig& config,
                                    const TokenModel& model, const Normalizer& normalizer) {
  tokens.insert(tokens.end(), config.added_tokens.begin(), config.added_tokens.end());
  // The config's tokens without ids are special if the vocabulary holds them.
  std::vector<std::string> special = config.special_tokens;
  for (const std::string& token : {config.bos_token, config.eos_token, config.unk_token}) {
    special.push_back(token);
  }
  for (const std::string& content : special) {
    const std::optional<int32_t> id = model.TokenId(content);
    if (id.has_value()) tokens.push_back({.id = *id, .content = content, .special = true});
  }
  std::set<std::string> seen;
  std::vector<AddedToken> joined;
  for (AddedToken& token : tokens) {
    if (token.content.empty() || !seen.insert(token.content).second) continue;
    token.id = model.TokenId(token.content).value_or(token.id);
    joined.push_back(std::move(token));
  }
  return AddedTokens::Build(std::move(joined), normalizer);
}

Result<TokenizerParts> ParseTokenizerJson(std::string_view text, const TokenizerConfig& config) {
  ASSIGN_OR_RETURN(TokenizerJson file, ReadTokenizerJson(text));
  return BuildTokenizer(std::move(file), config);
}

Result<TokenizerParts> BuildTokenizer(TokenizerJson file, const TokenizerConfig& config) {
  if (config.RebuildsLlama()) RebuildLlama(config, &file.rest);
  const auto section = [&](const char* key) { return file.rest.value(key, Json()); };
  TokenizerParts parts;
  ASSIGN_OR_RETURN(parts.normalizer, Normalizer::Parse(section("normalizer")));
  ASSIGN_OR_RETURN(parts.pre_tokenizer, PreTokenizer::Parse(section("pre_tokenizer")));
  ASSIGN_OR_RETURN(parts.decoder, Decoder::Parse(section("decoder")));
  ASSIGN_OR_RETURN(const PostProcessor post, PostProcessor::Parse(section("post_processor")));
  parts.prefix_ids = post.prefix_ids;
  parts.suffix_ids = post.suffix_ids;
  ASSIGN_OR_RETURN(std::vector<AddedToken> tokens, ParseAddedTokens(section("added_tokens")));
  ASSIGN_OR_RETURN(parts.model, ParseModel(std::move(file)));
  ASSIGN_OR_RETURN(parts.added_tokens,
                   JoinAddedTokens(std::move(tokens), config, *parts.model, parts.normalizer));
  RETURN_IF_ERROR(ApplyLlamaConfig(config, &parts));
  parts.bos_token = config.bos_token;
  parts.eos_token = config.eos_token;
  return parts;
}

}  // namespace graft
