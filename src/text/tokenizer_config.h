// The files beside a tokenizer: tokenizer_config.json, special_tokens_map.json and, of old,
// added_tokens.json. Plain data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/added_tokens.h"

namespace graft {

// Which of the two makes of Hugging Face's tokenizers is followed where they differ: in what
// becomes of white space at the start of texts and after special tokens, for LlamaTokenizer alone.
enum class TokenizerRules {
  kFile,           // `tokenizers` and transformers 4: the file says all
  kTransformers5,  // transformers 5: the class has a normalizer and a pre-tokenizer of its own
};

struct TokenizerConfig {
  TokenizerRules rules = TokenizerRules::kFile;
  std::string bos_token;  // "" where there is none
  std::string eos_token;
  std::string unk_token;
  std::string pad_token;
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  // transformers' class; the Llama family obeys add_bos_token whatever tokenizer.json says.
  std::string tokenizer_class;
  // LlamaTokenizer: every part of the text gets a space, not its start alone. Where no file says,
  // transformers 4 takes true and transformers 5 false.
  std::optional<bool> legacy;
  std::optional<bool> add_prefix_space;
  std::vector<AddedToken> added_tokens;     // with ids
  std::vector<std::string> special_tokens;  // without ids; those of the vocabulary are special

  // Reads one of the files into what the earlier ones left open.
  Status Merge(const Json& json);
  bool IsLlamaFamily() const;

  // Whether a LlamaTokenizer is made as transformers 5 makes it; see TokenizerRules.
  bool RebuildsLlama() const;
  // That tokenizer's Metaspace: "always", "first" or "never".
  std::string PrependScheme() const;
};

Result<TokenizerConfig> LoadTokenizerConfig(const std::string& model_dir);

// One member of "added_tokens" or of "added_tokens_decoder".
Result<AddedToken> ParseAddedToken(const Json& json, int64_t id);

}  // namespace graft
