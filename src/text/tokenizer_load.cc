#include "base/file.h"
#include "text/sentencepiece_model.h"
#include "text/tokenizer.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_convert.h"
#include "text/tokenizer_json.h"

namespace graft {
namespace {

Result<TokenizerParts> ParseModelFile(std::string bytes, const TokenizerConfig& config) {
  if (!IsTiktoken(bytes)) return ParseSentencePieceModel(std::move(bytes), config);
  ASSIGN_OR_RETURN(TokenizerJson file, ConvertTiktoken(bytes, config));
  ASSIGN_OR_RETURN(TokenizerParts parts, BuildTokenizer(std::move(file), config));
  // Without a config no other file names them.
  if (parts.bos_token.empty() && parts.added_tokens.Find("<|begin_of_text|>") != nullptr) {
    parts.bos_token = "<|begin_of_text|>";
  }
  if (parts.eos_token.empty() && parts.added_tokens.Find("<|end_of_text|>") != nullptr) {
    parts.eos_token = "<|end_of_text|>";
  }
  return parts;
}

// The class of tokenizer that transformers takes where tokenizer_config.json names none.
Result<std::string> ClassOfModel(const std::string& model_dir) {
  const std::string path = model_dir + "/config.json";
  if (!FileExists(path)) return std::string();
  ASSIGN_OR_RETURN(const Json config, ParseJsonFile(path));
  if (!config.is_object() || !config.contains("model_type")) return std::string();
  const Json& type = config["model_type"];
  if (type == "qwen2" || type == "qwen3") return std::string("Qwen2Tokenizer");
  const bool is_gpt2 = type == "gpt2" || type == "gpt_neo" || type == "starcoder2";
  return std::string(is_gpt2 ? "GPT2Tokenizer" : "");
}

Result<TokenizerParts> LoadVocabAndMerges(const std::string& model_dir, TokenizerConfig config) {
  if (config.tokenizer_class.empty()) {
    ASSIGN_OR_RETURN(config.tokenizer_class, ClassOfModel(model_dir));
  }
  ASSIGN_OR_RETURN(const std::string vocab, ReadFile(model_dir + "/vocab.json"));
  ASSIGN_OR_RETURN(const std::string merges, ReadFile(model_dir + "/merges.txt"));
  Result<TokenizerJson> file = ConvertVocabAndMerges(vocab, merges, config);
  if (!file.ok()) return file.status().WithContext(model_dir);
  Result<TokenizerParts> parts = BuildTokenizer(*std::move(file), config);
  if (!parts.ok()) return parts.status().WithContext(model_dir);
  if (parts->eos_token.empty()) parts->eos_token = "<|endoftext|>";
  return parts;
}

Result<TokenizerParts> LoadParts(const std::string& model_dir, TokenizerRules rules) {
  ASSIGN_OR_RETURN(TokenizerConfig config, LoadTokenizerConfig(model_dir));
  config.rules = rules;
  const std::string json_path = model_dir + "/tokenizer.json";
  const std::string model_path = model_dir + "/tokenizer.model";
  const bool is_json = FileExists(json_path);
  if (!is_json && !FileExists(model_path)) {
    if (FileExists(model_dir + "/vocab.json") && FileExists(model_dir + "/merges.txt")) {
      return LoadVocabAndMerges(model_dir, std::move(config));
    }
    return NotFoundError(
        "there is neither tokenizer.json nor tokenizer.model nor vocab.json with "
        "merges.txt in " +
        model_dir);
  }
  const std::string& path = is_json ? json_path : model_path;
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(path));
  Result<TokenizerParts> parts =
      is_json ? ParseTokenizerJson(bytes, config) : ParseModelFile(std::move(bytes), config);
  if (!parts.ok()) return parts.status().WithContext(path);
  return parts;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& model_dir,
                                                   TokenizerRules rules) {
  ASSIGN_OR_RETURN(TokenizerParts parts, LoadParts(model_dir, rules));
  return std::make_unique<Tokenizer>(std::move(parts));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::Parse(std::string_view tokenizer_json,
                                                    std::string_view config_json,
                                                    TokenizerRules rules) {
  TokenizerConfig config{.rules = rules};
  if (!config_json.empty()) {
    ASSIGN_OR_RETURN(const Json json, ParseJson(config_json));
    RETURN_IF_ERROR(config.Merge(json).WithContext("tokenizer_config.json"));
  }
  ASSIGN_OR_RETURN(TokenizerParts parts, ParseTokenizerJson(tokenizer_json, config));
  return std::make_unique<Tokenizer>(std::move(parts));
}

}  // namespace graft
