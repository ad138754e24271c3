// What turns words into token ids and knows the vocabulary: BPE of a tokenizer.json, or a
// sentencepiece model. Immutable, any thread.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace graft {

// A stretch of text on its way to the model; never empty.
struct Word {
  std::string_view text;
  bool at_start;  // nothing of the original text stands before it
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the tokens of the words to `ids`.
  virtual Status Encode(std::span<const Word> words, std::vector<int32_t>* ids) const = 0;
  virtual std::optional<int32_t> TokenId(std::string_view token) const = 0;
  // "" for an id that the vocabulary does not hold.
  virtual std::string_view Token(int32_t id) const = 0;
  // One past the largest id.
  virtual int32_t size() const = 0;
  // The bytes of words that leave no token behind, or one token for any number of them. Every other
  // stretch of a word is covered by tokens of its own length, or by one token for each character.
  // Nothing if bytes alone cannot tell that. `byte_level`: words are spelled in the byte-level
  // alphabet, and the result has the bytes that they stand for.
  virtual std::optional<std::bitset<256>> DroppedBytes(bool byte_level) const = 0;
};

}  // namespace graft
