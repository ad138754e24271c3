#include "text/string_search.h"

#include "base/check.h"

namespace graft {
namespace {

// The prefix function of the text with `at(i)` as its i-th character.
template <typename At>
std::vector<uint32_t> PrefixesOf(size_t size, At at, uint64_t* num_compared) {
  CHECK_LE(size, size_t{UINT32_MAX});
  std::vector<uint32_t> prefixes(size, 0);
  for (size_t i = 1; i < size; ++i) {
    prefixes[i] = NextMatched(prefixes[i - 1], at(i), at, prefixes, num_compared);
  }
  return prefixes;
}

}  // namespace

std::vector<uint32_t> PrefixFunction(std::string_view part) {
  uint64_t num_compared = 0;
  return PrefixesOf(
      part.size(), [part](size_t i) { return part[i]; }, &num_compared);
}

size_t FindLast(std::string_view text, std::string_view part, uint64_t* num_compared) {
  uint64_t unread = 0;
  uint64_t& compared = num_compared == nullptr ? unread : *num_compared;
  compared = 0;
  if (part.size() > text.size()) return std::string_view::npos;
  if (part.empty()) return text.size();
  // Both are read from their ends, so that the first place is the last one.
  const auto part_at = [part](size_t i) { return part[part.size() - 1 - i]; };
  const std::vector<uint32_t> prefixes = PrefixesOf(part.size(), part_at, &compared);
  uint32_t matched = 0;
  for (size_t i = text.size(); i > 0; --i) {
    matched = NextMatched(matched, text[i - 1], part_at, prefixes, &compared);
    if (matched == part.size()) return i - 1;
  }
  return std::string_view::npos;
}

}  // namespace graft
