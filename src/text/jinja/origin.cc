#include "text/jinja/origin.h"

#include <algorithm>
#include <utility>

namespace graft::jinja {

void Origins::Mark(std::string_view text) { Mark(text, {{0, text.size()}}); }

void Origins::Mark(std::string_view text, TextRanges ranges) {
  if (!text.empty()) areas_.insert_or_assign(text.data(), Area{text.size(), std::move(ranges)});
}

void Origins::Collect(std::string_view text, size_t offset, TextRanges* ranges) const {
  if (areas_.empty() || text.empty()) return;
  const auto after = areas_.upper_bound(text.data());
  if (after == areas_.begin()) return;
  const auto& [begin, area] = *std::prev(after);
  const auto first = static_cast<size_t>(text.data() - begin);
  if (first >= area.size) return;
  const size_t end = first + text.size();
  auto range = std::upper_bound(area.ranges.begin(), area.ranges.end(), first,
                                [](size_t pos, const TextRange& r) { return pos < r.end; });
  for (; range != area.ranges.end() && range->begin < end; ++range) {
    AppendRange({offset + std::max(range->begin, first) - first,
                 offset + std::min(range->end, end) - first},
                ranges);
  }
}

bool Origins::IsUntrusted(std::string_view text) const {
  TextRanges ranges;
  Collect(text, 0, &ranges);
  return !ranges.empty();
}

}  // namespace graft::jinja
