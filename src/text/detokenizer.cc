#include "text/detokenizer.h"

#include <algorithm>
#include <utility>

namespace graft {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens,
                         std::vector<int32_t> kept)
    : tokenizer_(&tokenizer),
      skip_special_tokens_(skip_special_tokens),
      kept_(std::move(kept)),
      stream_(tokenizer.decoder()) {}

std::string Detokenizer::Push(int32_t id) {
  std::string text;
  const std::string_view token = tokenizer_->TokenText(id);
  if (!token.empty() && !Skips(id)) stream_.Push(token, &text);
  return text;
}

bool Detokenizer::Skips(int32_t id) const {
  return skip_special_tokens_ && tokenizer_->IsSpecial(id) &&
         std::find(kept_.begin(), kept_.end(), id) == kept_.end();
}

std::string Detokenizer::EndByteRun() {
  std::string text;
  stream_.EndByteRun(&text);
  return text;
}

std::string Detokenizer::Flush() {
  std::string text;
  stream_.Flush(&text);
  return text;
}

}  // namespace graft
