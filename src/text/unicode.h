// Unicode properties and normal forms, as Rust's char methods define them (the oracle is written in
// Rust). Pure functions, any thread. The one door to ICU.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace graft {

bool IsUnicodeWhitespace(char32_t c);   // White_Space
bool IsUnicodeNumeric(char32_t c);      // general categories Nd, Nl, No
bool IsUnicodePunctuation(char32_t c);  // ASCII's punctuation and the general categories P*
bool IsUnicodeWord(char32_t c);         // \w: Alphabetic, M*, Nd, Pc, Join_Control
bool IsUnicodeMark(char32_t c);         // general categories M*

// The full lower-case mapping of one code point, without regard to its neighbours.
void AppendLowercase(char32_t c, std::string* out);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// `text` is valid UTF-8.
Result<std::string> NormalizeUnicode(std::string_view text, NormalForm form);

}  // namespace graft
