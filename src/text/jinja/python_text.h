// Python's str on UTF-8: positions count code points, letters are Unicode's (ICU). Texts are valid
// UTF-8. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace graft::jinja {

// The byte at which code point `index` starts; the size if there are fewer.
size_t ByteOffset(std::string_view text, int64_t index);

// str.isspace of one code point, which is also what \s matches.
bool IsPythonSpace(char32_t c);
// \w: a letter, a digit of any kind, or an underscore.
bool IsPythonWord(char32_t c);

// Which ends to strip.
enum class StripSide : uint8_t { kBoth, kLeft, kRight };
// Without white space at its ends.
std::string_view StripSpace(std::string_view text, StripSide side);
// Without code points of `characters` at its ends.
std::string_view StripCharacters(std::string_view text, std::string_view characters,
                                 StripSide side);
// str.split() without a separator: at runs of white space, at most `splits_max` times if >= 0.
std::vector<std::string_view> SplitSpace(std::string_view text, int64_t splits_max);
std::vector<std::string_view> SplitSpaceFromRight(std::string_view text, int64_t splits_max);
std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends);

std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
std::string SwapCase(std::string_view text);
// The first letter in title case, the rest in lower case.
std::string Capitalize(std::string_view text);
// str.title: every run of letters capitalized.
std::string TitleWords(std::string_view text);

// str.isalpha and its kin: not empty and true of every code point.
bool IsAlpha(std::string_view text);
bool IsAlnum(std::string_view text);
bool IsDecimal(std::string_view text);
bool IsDigit(std::string_view text);
bool IsNumeric(std::string_view text);
bool IsSpace(std::string_view text);
bool IsAscii(std::string_view text);
bool IsIdentifier(std::string_view text);
// At least one cased letter, and none of the other case.
bool IsUpper(std::string_view text);
bool IsLower(std::string_view text);
bool IsTitle(std::string_view text);
// What repr writes as it is and not as an escape.
bool IsPrintable(char32_t c);

}  // namespace graft::jinja
