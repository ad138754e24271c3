#include "server/nearest_names.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

namespace graft {
namespace {

char Lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool Contains(std::string_view text, std::string_view part) {
  return part.size() >= 3 &&
         std::search(text.begin(), text.end(), part.begin(), part.end(),
                     [](char a, char b) { return Lower(a) == Lower(b); }) != text.end();
}

}  // namespace

int EditDistance(std::string_view a, std::string_view b, int limit) {
  const int rows = static_cast<int>(a.size());
  const int columns = static_cast<int>(b.size());
  if (std::abs(rows - columns) > limit) return limit + 1;
  std::vector<int> before(columns + 1), last(columns + 1), row(columns + 1);
  for (int j = 0; j <= columns; ++j) last[j] = j;
  for (int i = 1; i <= rows; ++i) {
    row[0] = i;
    int row_min = i;
    for (int j = 1; j <= columns; ++j) {
      const bool same = Lower(a[i - 1]) == Lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && Lower(a[i - 1]) == Lower(b[j - 2]) &&
                           Lower(a[i - 2]) == Lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
      row_min = std::min(row_min, row[j]);
    }
    if (row_min > limit) return limit + 1;
    std::swap(before, last);
    std::swap(last, row);
  }
  return std::min(last[columns], limit + 1);
}

std::string NearestNames(std::string_view name, const std::vector<std::string>& names,
                         size_t names_max) {
  // A name is short; what is longer than this is nobody's misspelling, and comparing costs squares.
  constexpr size_t kBytesMax = 128;
  if (name.size() > kBytesMax) return "";
  const int limit = std::max<int>(2, static_cast<int>(name.size()) / 3);
  std::vector<std::pair<int, std::string_view>> near;
  for (const std::string& candidate : names) {
    if (candidate.size() > kBytesMax) continue;
    const int distance = EditDistance(name, candidate, limit);
    if (distance <= limit) {
      near.emplace_back(distance, candidate);
    } else if (Contains(candidate, name) || Contains(name, candidate)) {
      near.emplace_back(limit + 1, candidate);
    }
  }
  std::sort(near.begin(), near.end());
  std::string list;
  for (size_t i = 0; i < std::min(near.size(), names_max); ++i) {
    list += (i == 0 ? "'" : ", '") + std::string(near[i].second) + "'";
  }
  return list;
}

}  // namespace graft
