// Detokenizer: token ids in, text out, one token at a time. The texts that Push and Flush return,
// one after the other, are Tokenizer::Decode of all ids. Every piece is whole UTF-8. One thread;
// must not outlive its Tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/decoder.h"
#include "text/tokenizer.h"

namespace graft {

class Detokenizer {
 public:
  // `kept`: special tokens that are text all the same.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens, std::vector<int32_t> kept = {});

  // The text that has become certain with this token; often "" while a character is incomplete.
  std::string Push(int32_t id);
  // Whether this token is special and no part of the text.
  bool Skips(int32_t id) const;
  // Ends a run of byte tokens, as before a token that is special: the text that was held for it.
  std::string EndByteRun();
  // What was held back; incomplete characters become U+FFFD. The next Push starts a new text.
  std::string Flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::vector<int32_t> kept_;  // few
  DecodeStream stream_;
};

}  // namespace graft
