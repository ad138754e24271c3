// Text to token ids and back, exactly as HF's `tokenizers` does it, from a model's tokenizer.json
// or, where there is none, its sentencepiece tokenizer.model. Immutable, any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/text_range.h"
#include "text/token_count.h"
#include "text/token_model.h"
#include "text/tokenizer_config.h"

namespace graft {

// What a tokenizer is made of; see docs/inside/text.md for the path of a text through it.
struct TokenizerParts {
  AddedTokens added_tokens;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<TokenModel> model;
  std::vector<int32_t> prefix_ids;  // what add_special_tokens puts before the text
  std::vector<int32_t> suffix_ids;  // and after it
  Decoder decoder;
  std::string bos_token;
  std::string eos_token;
};

class Tokenizer {
 public:
  // Longer texts are refused by Encode.
  static constexpr size_t kTextBytesMax = size_t{256} << 20;

  // Reads tokenizer.json, else tokenizer.model (sentencepiece's or tiktoken's), else vocab.json and
  // merges.txt, and with them tokenizer_config.json and special_tokens_map.json if they exist.
  // kUnimplemented names a component that is not supported.
  static Result<std::unique_ptr<Tokenizer>> Load(const std::string& model_dir,
                                                 TokenizerRules rules = TokenizerRules::kFile);
  // The same from the texts of tokenizer.json and tokenizer_config.json ("": none).
  static Result<std::unique_ptr<Tokenizer>> Parse(std::string_view tokenizer_json,
                                                  std::string_view config_json,
                                                  TokenizerRules rules = TokenizerRules::kFile);
  explicit Tokenizer(TokenizerParts parts)
      : parts_(std::move(parts)), count_bound_(TokenCountBound::Of(parts_)) {}

  // Special tokens in the text become their ids, except where they overlap one of the `untrusted`
  // ranges: there they are plain text. kInvalidArgument: the text is not UTF-8. kResourceExhausted:
  // it is too long, or drives a split regex past its limit.
  Result<std::vector<int32_t>> Encode(std::string_view text, bool add_special_tokens,
                                      std::span<const TextRange> untrusted = {}) const;

  // A lower bound on the number of tokens that Encode makes of `text`, without tokenizing it: the
  // bytes of the text divided by those of the longest token, as far as normalizers and added tokens
  // allow. 0 if they may drop any amount of text. Reads the text once at most.
  int64_t TextTokensMin(std::string_view text) const { return count_bound_.TokensMin(text); }

  // Ids that the vocabulary does not hold stand for nothing. Always valid UTF-8.
  std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  // The bytes that this one token stands for, which may be a part of a character; "" for ids that
  // the vocabulary does not hold.
  std::string TokenBytes(int32_t id) const;

  bool IsSpecial(int32_t id) const;
  std::optional<int32_t> TokenId(std::string_view token) const;
  // One past the largest id.
  int32_t vocab_size() const;
  // Names the tokens that a model of so many embeddings does not have; "" where there are none. A
  // text with one of them cannot be served.
  std::string TokensBeyond(int32_t model_vocab_size) const;
  // What add_special_tokens puts before a text, mostly BOS alone, or nothing.
  const std::vector<int32_t>& prefix_ids() const { return parts_.prefix_ids; }
  const std::string& bos_token() const { return parts_.bos_token; }  // "" where there is none
  const std::string& eos_token() const { return parts_.eos_token; }

  // The token as the vocabulary spells it, "" where there is none. For Detokenizer.
  std::string_view TokenText(int32_t id) const;
  const Decoder& decoder() const { return parts_.decoder; }

 private:
  Status EncodePlain(std::string_view text, bool at_start, TextRanges untrusted,
                     std::vector<int32_t>* ids) const;

  TokenizerParts parts_;
  TokenCountBound count_bound_;
};

}  // namespace graft
