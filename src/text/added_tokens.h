// The tokens that stand beside the model's own: they are found in the text before anything else,
// and never split. Immutable once built, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "text/normalizer.h"
#include "text/text_range.h"

namespace graft {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  std::string decoded;   // what Decode makes of it: the content, normalized if it is looked for so
  bool special = false;  // left out by skip_special_tokens
  bool normalized = false;   // looked for in the normalized text, not in the original
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space on its left with it
  bool rstrip = false;
  // A special token, or one that is written like one: <|...|>. Build finds out.
  bool control = false;
};

// Byte trie that finds the longest of its keys at a position.
class TokenTrie {
 public:
  void Insert(std::string_view key, int32_t value);
  // The value and length of the longest key that `text` has at `pos`.
  struct Match {
    int32_t value;
    size_t bytes;
  };
  // Considers only tokens for which accepts(value, bytes) holds.
  template <typename Accepts>
  std::optional<Match> LongestAt(std::string_view text, size_t pos, Accepts accepts) const {
    std::optional<Match> longest;
    int32_t node = roots_[static_cast<unsigned char>(text[pos])];
    for (size_t i = pos + 1; node != 0; ++i) {
      const int32_t value = nodes_[node].value;
      if (value >= 0 && accepts(value, i - pos)) longest = Match{value, i - pos};
      if (i == text.size()) break;
      node = Child(node, static_cast<unsigned char>(text[i]));
    }
    return longest;
  }

 private:
  // 0: none.
  int32_t Child(int32_t node, unsigned char byte) const;

  struct Node {
    std::vector<std::pair<unsigned char, int32_t>> children;
    int32_t value = -1;
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<int32_t, 256> roots_ = {};  // the children of node 0; 0: none
};

class AddedTokens {
 public:
  static Result<AddedTokens> Build(std::vector<AddedToken> tokens, const Normalizer& normalizer);

  // A part of the text: a token, or what lies between tokens.
  struct Part {
    size_t begin;
    size_t end;
    const AddedToken* token;  // nullptr: plain text
  };
  // Splits `text` from left to right by the tokens that are looked for in the original text
  // (`normalized` false) or in a normalized part of it (true). No part is empty. No control token
  // is found where it overlaps one of the `untrusted` ranges.
  std::vector<Part> Split(std::string_view text, bool normalized,
                          std::span<const TextRange> untrusted = {}) const;

  // Whether control tokens are looked for in normalized text.
  bool has_normalized_control() const { return has_normalized_control_; }

  const AddedToken* Find(int32_t id) const;
  const AddedToken* Find(std::string_view content) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }
  int32_t id_end() const { return id_end_; }  // one past the largest id

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, size_t> by_id_;
  std::unordered_map<std::string, size_t> by_content_;
  TokenTrie original_;
  TokenTrie normalized_;
  int32_t id_end_ = 0;
  bool has_normalized_control_ = false;
};

}  // namespace graft
