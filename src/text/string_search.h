// Searches in a time that no text can make long (Knuth, Morris and Pratt): linear in both texts.
// std::string's find may take the product of their lengths, and the standard library's Boyer-Moore
// searcher the square of the part's length. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace graft {

// One step of the search for a part with `at(j)` as its j-th character. The text before `character`
// ended with the part's first `matched` characters (not all of it). Returns how many of the part's
// first characters the text ends with after `character`, the longest match that can go on.
// `prefixes`: the part's PrefixFunction. Each comparison is added to `num_compared`.
template <typename At>
uint32_t NextMatched(uint32_t matched, char character, const At& at,
                     const std::vector<uint32_t>& prefixes, uint64_t* num_compared) {
  for (;;) {
    ++*num_compared;
    if (at(matched) == character) return matched + 1;
    if (matched == 0) return 0;
    matched = prefixes[matched - 1];
  }
}

// For each length of a beginning of `part`, less one: how many characters at its end are a
// beginning of `part` again, of which it is not the whole.
std::vector<uint32_t> PrefixFunction(std::string_view part);

// Where `part` begins in `text` for the last time, or npos. `num_compared`, where it is asked for,
// becomes the number of characters that were compared: at most twice those of both texts.
size_t FindLast(std::string_view text, std::string_view part, uint64_t* num_compared = nullptr);

}  // namespace graft
