#include "text/jinja/python_text.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "text/utf8.h"

namespace graft::jinja {
namespace {

UChar32 Icu(char32_t c) { return static_cast<UChar32>(c); }

bool HasCategory(char32_t c, uint32_t mask) { return (U_GET_GC_MASK(Icu(c)) & mask) != 0; }

bool IsCased(char32_t c) { return u_hasBinaryProperty(Icu(c), UCHAR_CASED); }
bool IsUpperLetter(char32_t c) { return u_hasBinaryProperty(Icu(c), UCHAR_UPPERCASE); }
bool IsLowerLetter(char32_t c) { return u_hasBinaryProperty(Icu(c), UCHAR_LOWERCASE); }
bool IsTitleLetter(char32_t c) { return HasCategory(c, U_GC_LT_MASK); }
bool IsLetter(char32_t c) { return HasCategory(c, U_GC_L_MASK); }

bool IsDecimalDigit(char32_t c) { return u_charDigitValue(Icu(c)) >= 0; }

bool IsAnyDigit(char32_t c) {
  const int type = u_getIntPropertyValue(Icu(c), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}

bool IsNumber(char32_t c) { return u_getIntPropertyValue(Icu(c), UCHAR_NUMERIC_TYPE) != U_NT_NONE; }

bool IsPythonAlnum(char32_t c) {
  return IsLetter(c) || IsDecimalDigit(c) || IsAnyDigit(c) || IsNumber(c);
}

template <typename Predicate>
bool AllOf(std::string_view text, Predicate predicate) {
  for (size_t pos = 0; pos < text.size();) {
    if (!predicate(NextCodePoint(text, &pos))) return false;
  }
  return !text.empty();
}

// Whether it has letters of the case `is_wanted`, and none of the other nor in title case.
bool IsInCase(std::string_view text, bool (*is_wanted)(char32_t), bool (*is_other)(char32_t)) {
  bool cased = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = NextCodePoint(text, &pos);
    if (is_other(c) || IsTitleLetter(c)) return false;
    cased = cased || is_wanted(c);
  }
  return cased;
}

enum class Mapping { kUpper, kLower, kTitle };

std::string MapCase(std::string_view text, Mapping mapping) {
  std::string out;
  icu::StringByteSink<std::string> sink(&out, static_cast<int32_t>(text.size()));
  UErrorCode error = U_ZERO_ERROR;
  const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
  if (mapping == Mapping::kUpper) {
    icu::CaseMap::utf8ToUpper("", 0, piece, sink, nullptr, error);
  } else if (mapping == Mapping::kLower) {
    icu::CaseMap::utf8ToLower("", 0, piece, sink, nullptr, error);
  } else {
    icu::CaseMap::utf8ToTitle("", U_TITLECASE_WHOLE_STRING | U_TITLECASE_NO_BREAK_ADJUSTMENT,
                              nullptr, piece, sink, nullptr, error);
  }
  return U_SUCCESS(error) ? out : std::string(text);
}

// As str does it: the first code point in title case, the rest in lower case.
std::string CapitalizeFrom(std::string_view text, size_t first_end) {
  std::string lower = MapCase(text, Mapping::kLower);
  // Lower-casing the whole text and not its tail, so that a final sigma sees its word.
  const size_t lower_first = MapCase(text.substr(0, first_end), Mapping::kLower).size();
  return MapCase(text.substr(0, first_end), Mapping::kTitle) + lower.substr(lower_first);
}

bool IsLineEnd(char32_t c) {
  return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

template <typename Predicate>
std::string_view StripIf(std::string_view text, StripSide side, Predicate predicate) {
  size_t begin = 0;
  size_t end = text.size();
  if (side != StripSide::kRight) {
    for (size_t pos = 0; begin < end; begin = pos) {
      if (!predicate(NextCodePoint(text, &pos))) break;
    }
  }
  if (side != StripSide::kLeft) {
    for (size_t pos = end; begin < end; end = pos) {
      if (!predicate(PreviousCodePoint(text, &pos))) break;
    }
  }
  return text.substr(begin, end - begin);
}

}  // namespace

size_t ByteOffset(std::string_view text, int64_t index) {
  size_t pos = 0;
  for (; index > 0 && pos < text.size(); --index) {
    pos += static_cast<size_t>(Utf8Length(static_cast<unsigned char>(text[pos])));
  }
  return std::min(pos, text.size());
}

bool IsPythonSpace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F);
  return u_isUWhiteSpace(Icu(c));
}

bool IsPythonWord(char32_t c) { return c == '_' || IsPythonAlnum(c); }

std::string_view StripSpace(std::string_view text, StripSide side) {
  return StripIf(text, side, IsPythonSpace);
}

std::string_view StripCharacters(std::string_view text, std::string_view characters,
                                 StripSide side) {
  std::u32string set;
  for (size_t pos = 0; pos < characters.size();) set.push_back(NextCodePoint(characters, &pos));
  return StripIf(text, side, [&](char32_t c) { return set.find(c) != std::u32string::npos; });
}

std::vector<std::string_view> SplitSpace(std::string_view text, int64_t splits_max) {
  std::vector<std::string_view> words;
  for (text = StripSpace(text, StripSide::kLeft); !text.empty();
       text = StripSpace(text, StripSide::kLeft)) {
    if (splits_max >= 0 && static_cast<int64_t>(words.size()) == splits_max) {
      words.push_back(text);
      break;
    }
    size_t end = 0;
    for (size_t pos = 0; end < text.size(); end = pos) {
      if (IsPythonSpace(NextCodePoint(text, &pos))) break;
    }
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

std::vector<std::string_view> SplitSpaceFromRight(std::string_view text, int64_t splits_max) {
  std::vector<std::string_view> words;
  for (text = StripSpace(text, StripSide::kRight); !text.empty();
       text = StripSpace(text, StripSide::kRight)) {
    if (splits_max >= 0 && static_cast<int64_t>(words.size()) == splits_max) {
      words.push_back(text);
      break;
    }
    size_t begin = text.size();
    for (size_t pos = begin; begin > 0; begin = pos) {
      if (IsPythonSpace(PreviousCodePoint(text, &pos))) break;
    }
    words.push_back(text.substr(begin));
    text.remove_suffix(text.size() - begin);
  }
  std::reverse(words.begin(), words.end());
  return words;
}

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = pos;
    const char32_t c = NextCodePoint(text, &pos);
    if (!IsLineEnd(c)) continue;
    if (c == '\r' && pos < text.size() && text[pos] == '\n') ++pos;
    lines.push_back(text.substr(begin, (keep_ends ? pos : end) - begin));
    begin = pos;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string ToUpper(std::string_view text) { return MapCase(text, Mapping::kUpper); }

std::string ToLower(std::string_view text) { return MapCase(text, Mapping::kLower); }

std::string SwapCase(std::string_view text) {
  std::string out;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    const char32_t c = NextCodePoint(text, &end);
    const std::string_view piece = text.substr(begin, end - begin);
    out += IsUpperLetter(c) ? ToLower(piece) : IsLowerLetter(c) ? ToUpper(piece) : piece;
  }
  return out;
}

std::string Capitalize(std::string_view text) {
  if (text.empty()) return "";
  size_t first_end = 0;
  NextCodePoint(text, &first_end);
  return CapitalizeFrom(text, first_end);
}

std::string TitleWords(std::string_view text) {
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    // A run of cased letters, or one code point that is none.
    size_t first_end = begin;
    const bool cased = IsCased(NextCodePoint(text, &first_end));
    size_t end = first_end;
    for (size_t pos = end; cased && end < text.size(); end = pos) {
      if (!IsCased(NextCodePoint(text, &pos))) break;
    }
    const std::string_view piece = text.substr(begin, end - begin);
    out += cased ? CapitalizeFrom(piece, first_end - begin) : std::string(piece);
    begin = end;
  }
  return out;
}

bool IsAlpha(std::string_view text) { return AllOf(text, IsLetter); }
bool IsAlnum(std::string_view text) { return AllOf(text, IsPythonAlnum); }
bool IsDecimal(std::string_view text) { return AllOf(text, IsDecimalDigit); }
bool IsDigit(std::string_view text) { return AllOf(text, IsAnyDigit); }
bool IsNumeric(std::string_view text) { return AllOf(text, IsNumber); }
bool IsSpace(std::string_view text) { return AllOf(text, IsPythonSpace); }

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

bool IsIdentifier(std::string_view text) {
  size_t pos = 0;
  if (text.empty()) return false;
  const char32_t first = NextCodePoint(text, &pos);
  if (first != '_' && !u_hasBinaryProperty(Icu(first), UCHAR_XID_START)) return false;
  while (pos < text.size()) {
    if (!u_hasBinaryProperty(Icu(NextCodePoint(text, &pos)), UCHAR_XID_CONTINUE)) return false;
  }
  return true;
}

bool IsUpper(std::string_view text) { return IsInCase(text, IsUpperLetter, IsLowerLetter); }
bool IsLower(std::string_view text) { return IsInCase(text, IsLowerLetter, IsUpperLetter); }

bool IsTitle(std::string_view text) {
  bool cased = false;
  bool previous_cased = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = NextCodePoint(text, &pos);
    if (IsUpperLetter(c) || IsTitleLetter(c)) {
      if (previous_cased) return false;
      previous_cased = cased = true;
    } else if (IsLowerLetter(c)) {
      if (!previous_cased) return false;
      cased = true;
    } else {
      previous_cased = false;
    }
  }
  return cased;
}

bool IsPrintable(char32_t c) {
  if (c == ' ') return true;
  return !HasCategory(c, U_GC_C_MASK | U_GC_Z_MASK);
}

}  // namespace graft::jinja
