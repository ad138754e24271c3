// UTF-8 by hand: validation, code points, and the replacement of what is not UTF-8. Pure functions;
// Utf8Stream belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace graft {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

bool IsValidUtf8(std::string_view text);

// The code point at `*pos` of valid UTF-8; moves `*pos` past it.
char32_t NextCodePoint(std::string_view text, size_t* pos);
// The code point that ends at `*pos` > 0 of valid UTF-8; moves `*pos` to its first byte.
char32_t PreviousCodePoint(std::string_view text, size_t* pos);

// `text` is valid UTF-8.
int64_t CountCodePoints(std::string_view text);

void AppendCodePoint(char32_t code_point, std::string* text);

// Leaves at most so many bytes of `text`; a character that would be cut is left out.
void CutUtf8(size_t bytes_max, std::string* text);

bool IsAscii(std::string_view text);

// The number of bytes of the code point that starts with `lead` in valid UTF-8.
inline int Utf8Length(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// Whether valid UTF-8 holds exactly one code point.
inline bool IsOneCodePoint(std::string_view text) {
  return !text.empty() &&
         text.size() == static_cast<size_t>(Utf8Length(static_cast<unsigned char>(text.front())));
}

// Bytes in, valid UTF-8 out: every maximal part of a broken sequence becomes one U+FFFD, and what
// may still become a whole code point is held back until the next Push or Flush.
class Utf8Stream {
 public:
  void Push(std::string_view bytes, std::string* out);
  void Flush(std::string* out);

 private:
  std::string held_;  // at most 3 bytes, the start of one code point
};

}  // namespace graft
