#include "text/detokenizer.h"

namespace graft {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(&tokenizer),
      skip_special_tokens_(skip_special_tokens),
      stream_(tokenizer.decoder()) {}

std::string Detokenizer::Push(int32_t id) {
  std::string text;
  const std::string_view token = tokenizer_->TokenText(id);
  const bool skipped = token.empty() || (skip_special_tokens_ && tokenizer_->IsSpecial(id));
  if (!skipped) stream_.Push(token, &text);
  return text;
}

std::string Detokenizer::Flush() {
  std::string text;
  stream_.Flush(&text);
  return text;
}

}  // namespace graft
