// What stands beside a tokenizer: tokenizer_config.json, special_tokens_map.json and, of old,
// added_tokens.json. Plain data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/added_tokens.h"

namespace graft {

struct TokenizerConfig {
  std::string bos_token;  // "" where there is none
  std::string eos_token;
  std::string unk_token;
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  // transformers' class; the Llama family obeys add_bos_token whatever tokenizer.json says.
  std::string tokenizer_class;
  bool legacy = true;                       // LlamaTokenizer: every part of the text gets a space
  std::vector<AddedToken> added_tokens;     // with ids
  std::vector<std::string> special_tokens;  // without ids; those of the vocabulary are special

  // Reads one of the files into what the earlier ones left open.
  Status Merge(const Json& json);
  bool IsLlamaFamily() const;
};

Result<TokenizerConfig> LoadTokenizerConfig(const std::string& model_dir);

// One member of "added_tokens" or of "added_tokens_decoder".
Result<AddedToken> ParseAddedToken(const Json& json, int64_t id);

}  // namespace graft
