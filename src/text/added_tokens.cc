#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"
#include "text/utf8.h"

namespace graft {
namespace {

bool WordCharacterBefore(std::string_view text, size_t pos) {
  return pos > 0 && IsUnicodeWord(PreviousCodePoint(text, &pos));
}

bool WordCharacterAt(std::string_view text, size_t pos) {
  return pos < text.size() && IsUnicodeWord(NextCodePoint(text, &pos));
}

size_t SkipSpaceLeft(std::string_view text, size_t pos, size_t begin) {
  while (pos > begin) {
    size_t before = pos;
    if (!IsUnicodeWhitespace(PreviousCodePoint(text, &before))) break;
    pos = before;
  }
  return pos;
}

size_t SkipSpaceRight(std::string_view text, size_t pos) {
  while (pos < text.size()) {
    size_t after = pos;
    if (!IsUnicodeWhitespace(NextCodePoint(text, &after))) break;
    pos = after;
  }
  return pos;
}

// <|...|>, also with wide bars: some models' files do not call such tokens special.
bool LooksLikeControl(std::string_view content) {
  for (const std::string_view bar : {"|", "\xEF\xBD\x9C"}) {
    const std::string open = "<" + std::string(bar);
    const std::string close = std::string(bar) + ">";
    if (content.starts_with(open) && content.ends_with(close)) return true;
  }
  return false;
}

}  // namespace

void TokenTrie::Insert(std::string_view key, int32_t value) {
  int32_t node = 0;
  for (size_t i = 0; i < key.size(); ++i) {
    const auto byte = static_cast<unsigned char>(key[i]);
    auto& children = nodes_[node].children;
    if (const int32_t child = Child(node, byte); child != 0) {
      node = child;
      continue;
    }
    const auto added = static_cast<int32_t>(nodes_.size());
    children.emplace_back(byte, added);
    if (node == 0) roots_[byte] = added;
    nodes_.emplace_back();
    node = added;
  }
  if (nodes_[node].value < 0) nodes_[node].value = value;
}

int32_t TokenTrie::Child(int32_t node, unsigned char byte) const {
  const auto& children = nodes_[node].children;
  const auto child = std::find_if(children.begin(), children.end(),
                                  [&](const auto& entry) { return entry.first == byte; });
  return child == children.end() ? 0 : child->second;
}

Result<AddedTokens> AddedTokens::Build(std::vector<AddedToken> tokens,
                                       const Normalizer& normalizer) {
  AddedTokens added;
  added.tokens_ = std::move(tokens);
  for (size_t i = 0; i < added.tokens_.size(); ++i) {
    AddedToken& token = added.tokens_[i];
    token.decoded = token.content;
    token.control = token.special || LooksLikeControl(token.content);
    if (token.control && token.normalized) added.has_normalized_control_ = true;
    added.by_id_.try_emplace(token.id, i);
    added.by_content_.try_emplace(token.content, i);
    added.id_end_ = std::max(added.id_end_, token.id + 1);
    if (!token.normalized) {
      added.original_.Insert(token.content, static_cast<int32_t>(i));
      continue;
    }
    RETURN_IF_ERROR(normalizer.Apply(&token.decoded));
    added.normalized_.Insert(token.decoded, static_cast<int32_t>(i));
  }
  return added;
}

std::vector<AddedTokens::Part> AddedTokens::Split(std::string_view text, bool normalized,
                                                  std::span<const TextRange> untrusted) const {
  const TokenTrie& trie = normalized ? normalized_ : original_;
  std::vector<Part> parts;
  size_t done = 0;
  for (size_t pos = 0; pos < text.size();) {
    // A shorter token may be trusted where the longest is not.
    const auto accepts = [&](int32_t value, size_t bytes) {
      if (untrusted.empty() || !tokens_[value].control) return true;
      while (!untrusted.empty() && untrusted.front().end <= pos) untrusted = untrusted.subspan(1);
      return untrusted.empty() || untrusted.front().begin >= pos + bytes;
    };
    const std::optional<TokenTrie::Match> match = trie.LongestAt(text, pos, accepts);
    if (!match.has_value()) {
      ++pos;
      continue;
    }
    const AddedToken& token = tokens_[match->value];
    size_t begin = pos;
    size_t end = pos + match->bytes;
    pos = end;
    const bool touched = WordCharacterBefore(text, begin) || WordCharacterAt(text, end);
    if (token.single_word && touched) continue;
    // An earlier token may have taken the white space already.
    if (token.lstrip) begin = std::max(SkipSpaceLeft(text, begin, done), done);
    if (token.rstrip) end = SkipSpaceRight(text, end);
    if (begin > end) continue;
    if (done < begin) parts.push_back({done, begin, nullptr});
    // A token all of which an earlier one has taken is lost.
    if (begin < end) parts.push_back({begin, end, &token});
    done = end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), nullptr});
  return parts;
}

const AddedToken* AddedTokens::Find(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::Find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

}  // namespace graft
