#include "text/token_count.h"

#include <algorithm>

#include "text/tokenizer.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace graft {
namespace {

// The longest text of one token, in bytes of what the model sees.
size_t LongestTokenBytes(const TokenizerParts& parts, bool byte_level) {
  // An unknown character has so many bytes at most.
  size_t longest = byte_level ? 1 : 4;
  for (int32_t id = 0; id < parts.model->size(); ++id) {
    const std::string_view token = parts.model->Token(id);
    // In the byte-level alphabet every byte is a code point.
    if (token.size() > longest && byte_level && IsValidUtf8(token)) {
      longest = std::max(longest, static_cast<size_t>(CountCodePoints(token)));
    } else {
      longest = std::max(longest, token.size());
    }
  }
  for (const AddedToken& token : parts.added_tokens.tokens()) {
    longest = std::max({longest, token.content.size(), token.decoded.size()});
  }
  return longest;
}

size_t CountBytes(std::string_view text, const std::bitset<256>& dropped, bool without_space) {
  size_t bytes = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    if (without_space && IsUnicodeWhitespace(NextCodePoint(text, &pos))) continue;
    if (!without_space) ++pos;
    for (size_t i = begin; i < pos; ++i) bytes += dropped[static_cast<uint8_t>(text[i])] ? 0 : 1;
  }
  return bytes;
}

}  // namespace

TokenCountBound TokenCountBound::Of(const TokenizerParts& parts) {
  TokenCountBound bound;
  const bool byte_level = parts.normalizer.MakesByteLevel() || parts.pre_tokenizer.MakesByteLevel();
  const std::optional<std::bitset<256>> dropped = parts.model->DroppedBytes(byte_level);
  if (parts.pre_tokenizer.DropsText() || !dropped.has_value()) return bound;
  // A normalizer may turn other bytes into those.
  if (dropped->any() && !parts.normalizer.empty()) return bound;
  bound.dropped_ = *dropped;
  const size_t longest = LongestTokenBytes(parts, byte_level);
  const auto times_longest = [&](std::optional<size_t> shrink) {
    return shrink.has_value() ? std::optional<size_t>(*shrink * longest) : std::nullopt;
  };
  bound.bytes_per_token_ = times_longest(parts.normalizer.ShrinkMax(/*ascii=*/false));
  bound.bytes_per_token_ascii_ = times_longest(parts.normalizer.ShrinkMax(/*ascii=*/true));
  for (const AddedToken& token : parts.added_tokens.tokens()) {
    if (!token.lstrip && !token.rstrip) continue;
    if (token.normalized) bound.has_hidden_space_takers_ = true;
    bound.space_takers_.push_back(token.content);
  }
  return bound;
}

int64_t TokenCountBound::TokensMin(std::string_view text) const {
  const std::optional<size_t> bytes_per_token =
      IsAscii(text) ? bytes_per_token_ascii_ : bytes_per_token_;
  if (!bytes_per_token.has_value()) return 0;
  const auto is_in_text = [&](const std::string& token) {
    return text.find(token) != std::string_view::npos;
  };
  const bool takes_space = has_hidden_space_takers_ ||
                           std::any_of(space_takers_.begin(), space_takers_.end(), is_in_text);
  if (takes_space && !IsValidUtf8(text)) return 0;
  const bool counts = takes_space || dropped_.any();
  const size_t bytes = counts ? CountBytes(text, dropped_, takes_space) : text.size();
  return static_cast<int64_t>((bytes + *bytes_per_token - 1) / *bytes_per_token);
}

}  // namespace graft
