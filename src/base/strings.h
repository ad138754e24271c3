// What many files do with texts: letters and digits of ASCII, blanks at both ends, lists. Pure
// functions; any thread.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace graft {

inline bool IsAsciiDigit(char c) { return c >= '0' && c <= '9'; }

inline bool IsAsciiAlnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsAsciiDigit(c);
}

// With ASCII's capital letters small.
inline std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return lower;
}

inline std::string_view Trimmed(std::string_view text, std::string_view blanks = " \t") {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

// "%2F" to "/"; what is no valid escape stays as it is.
std::string PercentDecode(std::string_view text);

// "a, b": what `text_of` makes of each item, with `between` between two.
template <typename Range, typename TextOf = std::identity>
std::string Joined(const Range& items, std::string_view between, const TextOf& text_of = {}) {
  std::string joined;
  bool is_first = true;
  for (const auto& item : items) {
    if (!std::exchange(is_first, false)) joined += between;
    joined += std::invoke(text_of, item);
  }
  return joined;
}

}  // namespace graft
