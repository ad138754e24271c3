#include "base/file.h"
#include "text/sentencepiece_model.h"
#include "text/tokenizer.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_json.h"

namespace graft {
namespace {

Result<TokenizerParts> LoadParts(const std::string& model_dir) {
  ASSIGN_OR_RETURN(const TokenizerConfig config, LoadTokenizerConfig(model_dir));
  const std::string json_path = model_dir + "/tokenizer.json";
  const std::string model_path = model_dir + "/tokenizer.model";
  if (!FileExists(json_path) && !FileExists(model_path)) {
    return NotFoundError("there is neither tokenizer.json nor tokenizer.model in " + model_dir);
  }
  const bool is_json = FileExists(json_path);
  const std::string& path = is_json ? json_path : model_path;
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(path));
  Result<TokenizerParts> parts = is_json ? ParseTokenizerJson(bytes, config)
                                         : ParseSentencePieceModel(std::move(bytes), config);
  if (!parts.ok()) return parts.status().WithContext(path);
  return parts;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& model_dir) {
  ASSIGN_OR_RETURN(TokenizerParts parts, LoadParts(model_dir));
  return std::make_unique<Tokenizer>(std::move(parts));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::Parse(std::string_view tokenizer_json,
                                                    std::string_view config_json) {
  TokenizerConfig config;
  if (!config_json.empty()) {
    ASSIGN_OR_RETURN(const Json json, ParseJson(config_json));
    RETURN_IF_ERROR(config.Merge(json).WithContext("tokenizer_config.json"));
  }
  ASSIGN_OR_RETURN(TokenizerParts parts, ParseTokenizerJson(tokenizer_json, config));
  return std::make_unique<Tokenizer>(std::move(parts));
}

}  // namespace graft
