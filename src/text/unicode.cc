#include "text/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include "text/utf8.h"

namespace graft {
namespace {

bool HasCategory(char32_t c, uint32_t mask) {
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & mask) != 0;
}

bool IsAsciiPunctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

const icu::Normalizer2* NormalizerOf(NormalForm form, UErrorCode* error) {
  switch (form) {
    case NormalForm::kNfc:
      return icu::Normalizer2::getNFCInstance(*error);
    case NormalForm::kNfd:
      return icu::Normalizer2::getNFDInstance(*error);
    case NormalForm::kNfkc:
      return icu::Normalizer2::getNFKCInstance(*error);
    case NormalForm::kNfkd:
      return icu::Normalizer2::getNFKDInstance(*error);
  }
  return nullptr;
}

}  // namespace

bool IsUnicodeWhitespace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return u_isUWhiteSpace(static_cast<UChar32>(c));
}

bool IsUnicodeNumeric(char32_t c) {
  return HasCategory(c, U_GC_ND_MASK | U_GC_NL_MASK | U_GC_NO_MASK);
}

bool IsUnicodePunctuation(char32_t c) {
  return IsAsciiPunctuation(c) || HasCategory(c, U_GC_P_MASK);
}

bool IsUnicodeWord(char32_t c) {
  return HasCategory(c, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) ||
         u_isUAlphabetic(static_cast<UChar32>(c)) ||
         u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_JOIN_CONTROL);
}

bool IsUnicodeMark(char32_t c) { return HasCategory(c, U_GC_M_MASK); }

void AppendLowercase(char32_t c, std::string* out) {
  // The only code point with two as its lower case in every context.
  if (c == 0x130) {
    out->append("i\xCC\x87");
    return;
  }
  AppendCodePoint(static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))), out);
}

Result<std::string> NormalizeUnicode(std::string_view text, NormalForm form) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* normalizer = NormalizerOf(form, &error);
  std::string normal;
  if (U_SUCCESS(error)) {
    icu::StringByteSink<std::string> sink(&normal, static_cast<int32_t>(text.size()));
    normalizer->normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())),
                              sink, nullptr, error);
  }
  if (U_FAILURE(error)) {
    return InternalError(std::string("Unicode normalization failed: ") + u_errorName(error));
  }
  return normal;
}

}  // namespace graft
