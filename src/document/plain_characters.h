// Replaces characters that only a layout needs by those that a reader types, so that a word has the
// same tokens wherever it came from. Also says which characters cannot be read. Pure functions; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace graft {

// The plain form of a layout's character: ligatures (U+FB00 to U+FB06) become their letters; spaces
// that do not break or have a width of their own become spaces; soft hyphens, zero-width spaces and
// byte order marks become nothing. Returns false if the character has no other form.
bool PlainForm(char32_t character, std::string_view* plain);

// All of valid UTF-8 in its plain form. A soft hyphen at a line's end goes with the line's end, and
// with the blanks around it.
std::string PlainCharacters(std::string_view text);

// Controls (but white space and ESC, which logs colour with), characters for private use,
// noncharacters and U+FFFD: what files have in place of characters that were lost.
bool IsUnreadable(char32_t character);

struct UnreadableCount {
  int64_t characters = 0;  // without white space
  int64_t controls = 0;    // of them
  int64_t unreadable = 0;  // of them, controls included
};
// Takes valid UTF-8, and leaves out the characters that cannot be read.
UnreadableCount LeaveOutUnreadable(std::string* text);

}  // namespace graft
