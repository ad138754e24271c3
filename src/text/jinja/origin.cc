#include "text/jinja/origin.h"

#include <algorithm>
#include <utility>

namespace graft::jinja {

OriginId Origins::Mark(std::string_view text, const TextRanges& ranges) {
  if (text.empty()) return kOfTemplate;
  areas_.push_back({text.data(), text.size(), ranges_.size(), ranges.size()});
  ranges_.insert(ranges_.end(), ranges.begin(), ranges.end());
  return kAreasBegin + static_cast<OriginId>(areas_.size() - 1);
}

const Origins::Area* Origins::Find(std::string_view text) const {
  for (; num_by_address_ < areas_.size(); ++num_by_address_) {
    by_address_.insert_or_assign(areas_[num_by_address_].begin, num_by_address_);
  }
  const auto after = by_address_.upper_bound(text.data());
  if (after == by_address_.begin()) return nullptr;
  const Area& area = areas_[std::prev(after)->second];
  return text.data() < area.begin + area.size ? &area : nullptr;
}

void Origins::Collect(std::string_view text, OriginId origin, size_t offset,
                      TextRanges* ranges) const {
  if (text.empty() || origin == kOfTemplate || areas_.empty()) return;
  const Area* area = origin == kByAddress ? Find(text) : &areas_[origin - kAreasBegin];
  if (area == nullptr) return;
  if (area->num_ranges == 0) {
    AppendRange({offset, offset + text.size()}, ranges);
    return;
  }
  const auto first = static_cast<size_t>(text.data() - area->begin);
  const size_t end = first + text.size();
  // Room for a few at once: most texts have so many.
  if (ranges->capacity() == 0) ranges->reserve(8);
  const TextRange* range = ranges_.data() + area->first_range;
  const TextRange* ranges_end = range + area->num_ranges;
  range = std::upper_bound(range, ranges_end, first,
                           [](size_t pos, const TextRange& r) { return pos < r.end; });
  for (; range != ranges_end && range->begin < end; ++range) {
    AppendRange({offset + std::max(range->begin, first) - first,
                 offset + std::min(range->end, end) - first},
                ranges);
  }
}

bool Origins::IsUntrusted(std::string_view text, OriginId origin) const {
  TextRanges ranges;
  Collect(text, origin, 0, &ranges);
  return !ranges.empty();
}

}  // namespace graft::jinja
