// How few tokens a text can have, told from its length: a text that cannot fit is refused before it
// is tokenized. Immutable, any thread.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

struct TokenizerParts;

class TokenCountBound {
 public:
  static TokenCountBound Of(const TokenizerParts& parts);

  // No tokenization of `text` has fewer tokens, whatever of it is untrusted. 0 where the tokenizer
  // may drop text, so that nothing can be told.
  int64_t TokensMin(std::string_view text) const;

 private:
  // How many bytes of a text (of one that is all ASCII) one token may stand for; nothing where
  // there is no bound.
  std::optional<size_t> bytes_per_token_;
  std::optional<size_t> bytes_per_token_ascii_;
  std::bitset<256> dropped_;  // bytes that may leave no token behind
  // Added tokens that take any amount of white space beside them along; and whether there are more
  // such tokens, which a text can have without spelling them out.
  std::vector<std::string> space_takers_;
  bool has_hidden_space_takers_ = false;
};

}  // namespace graft
