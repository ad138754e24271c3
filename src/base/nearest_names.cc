#include "base/nearest_names.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include "base/strings.h"

namespace graft {
namespace {

// Names are short: a longer text is no misspelled name.
constexpr size_t kNameBytesMax = 128;
constexpr int kEditsMax = 8;
// Entries of trigrams' lists that one search reads.
constexpr size_t kEntriesMax = 4096;

char Lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool Contains(std::string_view text, std::string_view part) {
  return part.size() >= 3 &&
         std::search(text.begin(), text.end(), part.begin(), part.end(),
                     [](char a, char b) { return Lower(a) == Lower(b); }) != text.end();
}

// Every three bytes in a row, each once; the first and the last two count as one with the border.
std::vector<uint32_t> TrigramsOf(std::string_view name) {
  std::string text(1, '\x01');
  for (const char c : name) text += Lower(c);
  text += '\x01';
  std::vector<uint32_t> trigrams;
  for (size_t i = 0; i + 2 < text.size(); ++i) {
    uint32_t trigram = 0;
    for (size_t j = 0; j < 3; ++j) trigram = trigram << 8 | static_cast<unsigned char>(text[i + j]);
    trigrams.push_back(trigram);
  }
  std::sort(trigrams.begin(), trigrams.end());
  trigrams.erase(std::unique(trigrams.begin(), trigrams.end()), trigrams.end());
  return trigrams;
}

}  // namespace

// Only the cells near the diagonal: those further off take more than `limit` edits.
int EditDistance(std::string_view a, std::string_view b, int limit) {
  const int rows = static_cast<int>(a.size());
  const int columns = static_cast<int>(b.size());
  const int far = limit + 1;
  if (std::abs(rows - columns) > limit) return far;
  const auto width = static_cast<size_t>(columns) + 1;
  std::vector<int> before(width, far), last(width, far), row(width, far);
  for (int j = 0; j <= std::min(columns, limit); ++j) last[j] = j;
  for (int i = 1; i <= rows; ++i) {
    const int begin = std::max(1, i - limit);
    const int end = std::min(columns, i + limit);
    row[begin - 1] = begin == 1 ? std::min(i, far) : far;
    int row_min = row[begin - 1];
    for (int j = begin; j <= end; ++j) {
      const bool same = Lower(a[i - 1]) == Lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && Lower(a[i - 1]) == Lower(b[j - 2]) &&
                           Lower(a[i - 2]) == Lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
      row_min = std::min(row_min, row[j]);
    }
    if (end < columns) row[end + 1] = far;
    if (row_min > limit) return far;
    std::swap(before, last);
    std::swap(last, row);
  }
  return std::min(last[columns], far);
}

std::string NearestNames(std::string_view name, const std::vector<std::string>& names,
                         size_t names_max) {
  if (name.size() > kNameBytesMax) return "";
  const int limit = std::clamp(static_cast<int>(name.size()) / 3, 2, kEditsMax);
  std::vector<std::pair<int, std::string_view>> near;
  for (const std::string& candidate : names) {
    if (candidate.size() > kNameBytesMax) continue;
    const int distance = EditDistance(name, candidate, limit);
    if (distance <= limit) {
      near.emplace_back(distance, candidate);
    } else if (Contains(candidate, name) || Contains(name, candidate)) {
      near.emplace_back(limit + 1, candidate);
    }
  }
  std::sort(near.begin(), near.end());
  near.resize(std::min(near.size(), names_max));
  const auto quoted = [](const auto& one) { return "'" + std::string(one.second) + "'"; };
  return Joined(near, ", ", quoted);
}

void NameIndex::Insert(const std::string& name) {
  if (name.empty() || name.size() > kNameBytesMax || ids_.contains(name)) return;
  if (free_.empty()) {
    free_.push_back(static_cast<int32_t>(names_.size()));
    names_.emplace_back();
  }
  const int32_t id = free_.back();
  free_.pop_back();
  names_[static_cast<size_t>(id)] = name;
  ids_[name] = id;
  for (const uint32_t trigram : TrigramsOf(name)) ids_of_trigram_[trigram].push_back(id);
}

void NameIndex::Erase(const std::string& name) {
  const auto it = ids_.find(name);
  if (it == ids_.end()) return;
  const int32_t id = it->second;
  ids_.erase(it);
  for (const uint32_t trigram : TrigramsOf(name)) {
    const auto list = ids_of_trigram_.find(trigram);
    std::vector<int32_t>& ids = list->second;
    const auto entry = std::find(ids.begin(), ids.end(), id);
    *entry = ids.back();
    ids.pop_back();
    if (ids.empty()) ids_of_trigram_.erase(list);
  }
  names_[static_cast<size_t>(id)].clear();
  free_.push_back(id);
}

// Ids of names that share trigrams with `name`, those that share most first. The rarest trigrams,
// which tell most, are looked at first.
std::vector<int32_t> NameIndex::Sharing(std::string_view name) const {
  std::vector<const std::vector<int32_t>*> lists;
  for (const uint32_t trigram : TrigramsOf(name)) {
    const auto it = ids_of_trigram_.find(trigram);
    if (it != ids_of_trigram_.end()) lists.push_back(&it->second);
  }
  std::sort(lists.begin(), lists.end(),
            [](const auto* a, const auto* b) { return a->size() < b->size(); });
  std::vector<int32_t> entries;
  for (const std::vector<int32_t>* list : lists) {
    const size_t count = std::min(list->size(), kEntriesMax - entries.size());
    entries.insert(entries.end(), list->begin(),
                   list->begin() + static_cast<std::ptrdiff_t>(count));
  }
  std::sort(entries.begin(), entries.end());
  std::vector<std::pair<int32_t, int32_t>> ranked;  // minus how many are shared, id
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i == 0 || entries[i] != entries[i - 1]) ranked.emplace_back(0, entries[i]);
    --ranked.back().first;
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<int32_t> ids;
  for (const auto& [shared, id] : ranked) ids.push_back(id);
  return ids;
}

std::vector<std::string> NameIndex::Candidates(std::string_view name, const Filter& allows) const {
  std::vector<std::string> candidates;
  if (name.size() > kNameBytesMax) return candidates;
  const auto take = [&](const std::string& known) {
    if (!allows || allows(known)) candidates.push_back(known);
  };
  if (ids_.size() <= kCandidatesMax) {
    for (const auto& [known, id] : ids_) take(known);
    return candidates;
  }
  for (const int32_t id : Sharing(name)) {
    if (candidates.size() == kCandidatesMax) break;
    take(names_[static_cast<size_t>(id)]);
  }
  return candidates;
}

}  // namespace graft
