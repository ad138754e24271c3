// Which known names a misspelt one may have meant. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graft {

// Edits (insert, delete, replace, swap of neighbours) between two words, letters' case ignored.
// Gives up past `limit` and returns limit + 1.
int EditDistance(std::string_view a, std::string_view b, int limit);

// Up to `names_max` of `names`, the nearest first, those near enough to be meant; quoted and joined
// by ", ". "" where none is near.
std::string NearestNames(std::string_view name, const std::vector<std::string>& names,
                         size_t names_max = 3);

}  // namespace graft
