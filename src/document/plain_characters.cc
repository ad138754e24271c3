#include "document/plain_characters.h"

#include "text/utf8.h"

namespace graft {
namespace {

constexpr char32_t kSoftHyphen = 0xAD;

bool IsBlankOfLine(char c) { return c == ' ' || c == '\t'; }

// Where the next line's text begins if blanks and one line's end alone follow `at`, else `at`.
size_t PastLineEnd(std::string_view text, size_t at) {
  size_t next = at;
  while (next < text.size() && IsBlankOfLine(text[next])) ++next;
  if (next == text.size() || text[next] != '\n') return at;
  ++next;
  while (next < text.size() && IsBlankOfLine(text[next])) ++next;
  return next == text.size() || text[next] == '\n' ? at : next;
}

bool IsControl(char32_t c) {
  const bool is_white = c == '\t' || c == '\n' || c == '\v' || c == '\f' || c == '\r';
  return (c < 0x20 && !is_white && c != 0x1B) || (c >= 0x7F && c <= 0x9F);
}

}  // namespace

bool PlainForm(char32_t character, std::string_view* plain) {
  constexpr std::string_view kLigatures[] = {"ff", "fi", "fl", "ffi", "ffl", "st", "st"};
  if (character >= 0xFB00 && character <= 0xFB06) {
    *plain = kLigatures[character - 0xFB00];
  } else if (character == 0xA0 || (character >= 0x2000 && character <= 0x200A) ||
             character == 0x202F || character == 0x205F) {
    *plain = " ";
  } else if (character == kSoftHyphen || character == 0x200B || character == 0xFEFF) {
    *plain = "";
  } else {
    return false;
  }
  return true;
}

std::string PlainCharacters(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t character = NextCodePoint(text, &pos);
    std::string_view plain;
    result += PlainForm(character, &plain) ? plain : text.substr(begin, pos - begin);
    if (character != kSoftHyphen) continue;
    const size_t next = PastLineEnd(text, pos);
    if (next == pos) continue;
    while (!result.empty() && IsBlankOfLine(result.back())) result.pop_back();
    pos = next;
  }
  return result;
}

bool IsUnreadable(char32_t c) {
  const bool is_private = (c >= 0xE000 && c <= 0xF8FF) || c >= 0xF0000;
  const bool is_no_character = (c >= 0xFDD0 && c <= 0xFDEF) || (c & 0xFFFE) == 0xFFFE;
  return IsControl(c) || is_private || is_no_character || c == 0xFFFD;
}

UnreadableCount LeaveOutUnreadable(std::string* text) {
  UnreadableCount count;
  std::string kept;
  kept.reserve(text->size());
  for (size_t pos = 0; pos < text->size();) {
    const size_t begin = pos;
    const char32_t c = NextCodePoint(*text, &pos);
    const bool is_white = c == ' ' || (c >= '\t' && c <= '\r');
    count.characters += is_white ? 0 : 1;
    count.controls += IsControl(c) ? 1 : 0;
    if (IsUnreadable(c)) {
      ++count.unreadable;
    } else {
      kept.append(*text, begin, pos - begin);
    }
  }
  if (count.unreadable > 0) *text = std::move(kept);
  return count;
}

}  // namespace graft
