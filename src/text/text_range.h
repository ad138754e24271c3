// A stretch of a text, by its bytes. Plain data.
#pragma once

#include <cstddef>
#include <vector>

namespace graft {

// Half-open: [begin, end).
struct TextRange {
  size_t begin;
  size_t end;

  bool operator==(const TextRange&) const = default;
};

// In order, apart from each other, none of them empty.
using TextRanges = std::vector<TextRange>;

// Adds a range that begins at or after the end of the last one, and joins the two where they touch.
inline void AppendRange(TextRange range, TextRanges* ranges) {
  if (range.begin == range.end) return;
  if (!ranges->empty() && ranges->back().end == range.begin) {
    ranges->back().end = range.end;
  } else {
    ranges->push_back(range);
  }
}

}  // namespace graft
