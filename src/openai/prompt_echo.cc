#include "openai/prompt_echo.h"

#include <utility>

#include "text/detokenizer.h"

namespace graft {
namespace {

PromptEcho Decoded(const Tokenizer& tokenizer, std::span<const int32_t> tokens,
                   bool skips_special_tokens) {
  PromptEcho echo;
  Detokenizer detokenizer(tokenizer, skips_special_tokens);
  int64_t offset = 0;
  for (const int32_t token : tokens) {
    echo.offsets.push_back(static_cast<int32_t>(offset));
    const std::string piece = detokenizer.Push(token);
    offset += NumCodePoints(piece);
    echo.text += piece;
  }
  echo.text += detokenizer.Flush();
  return echo;
}

// Walks along a text that tokens were made of.
class Walk {
 public:
  explicit Walk(std::string_view text) : rest_(text) {}

  // False where the text goes on otherwise.
  bool Take(std::string_view piece) {
    if (!rest_.starts_with(piece)) return false;
    rest_.remove_prefix(piece.size());
    offset_ += NumCodePoints(piece);
    return true;
  }
  bool StartsWith(std::string_view piece) const { return rest_.starts_with(piece); }
  bool AtEnd() const { return rest_.empty(); }
  int32_t offset() const { return static_cast<int32_t>(offset_); }

 private:
  std::string_view rest_;
  int64_t offset_ = 0;
};

// Where the tokens lie in the text that they were made of. None where that cannot be told: a
// tokenizer may change a text. Special tokens that the text does not spell out, which the tokenizer
// has added, take no room.
std::vector<int32_t> OffsetsIn(const Tokenizer& tokenizer, std::span<const int32_t> tokens,
                               std::string_view text) {
  std::vector<int32_t> offsets;
  Detokenizer detokenizer(tokenizer, /*skip_special_tokens=*/false);
  Walk walk(text);
  for (const int32_t token : tokens) {
    const bool is_special = tokenizer.IsSpecial(token);
    if (is_special && !walk.Take(detokenizer.EndByteRun())) return {};
    offsets.push_back(walk.offset());
    if (is_special && !walk.StartsWith(tokenizer.TokenText(token))) continue;
    if (!walk.Take(detokenizer.Push(token))) return {};
  }
  if (!walk.Take(detokenizer.Flush()) || !walk.AtEnd()) return {};
  return offsets;
}

}  // namespace

int64_t NumCodePoints(std::string_view text) {
  int64_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

std::shared_ptr<const PromptEcho> EchoPrompt(const Tokenizer& tokenizer,
                                             std::span<const int32_t> tokens,
                                             const std::string* given, bool skips_special_tokens,
                                             bool with_offsets) {
  PromptEcho echo;
  if (given != nullptr && with_offsets) echo.offsets = OffsetsIn(tokenizer, tokens, *given);
  if (given != nullptr && (!with_offsets || echo.offsets.size() == tokens.size())) {
    echo.text = *given;
  } else {
    echo = Decoded(tokenizer, tokens, skips_special_tokens);
  }
  return std::make_shared<const PromptEcho>(std::move(echo));
}

}  // namespace graft
