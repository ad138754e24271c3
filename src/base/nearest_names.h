// Which known names a misspelt one may have meant. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace graft {

// Edits (insert, delete, replace, swap of neighbours) between two words, letters' case ignored.
// Gives up past `limit` and returns limit + 1. Takes length times `limit`.
int EditDistance(std::string_view a, std::string_view b, int limit);

// Up to `names_max` of `names`, the nearest first, those near enough to be meant; quoted and joined
// by ", ". "" where none is near.
std::string NearestNames(std::string_view name, const std::vector<std::string>& names,
                         size_t names_max = 3);

// NameIndex: many names, of which a search compares only the few that share the most groups of
// three letters with the name that was asked for. A search looks at a bounded number of names,
// however many there are, so it may miss one. Not thread-safe: its owner locks.
class NameIndex {
 public:
  // A name that is there already, or that is too long to be searched for, changes nothing.
  void Insert(const std::string& name);
  void Erase(const std::string& name);

  // At most kCandidatesMax of the names that `allows` lets through (empty: all), for NearestNames.
  static constexpr size_t kCandidatesMax = 128;
  using Filter = std::function<bool(const std::string&)>;
  std::vector<std::string> Candidates(std::string_view name, const Filter& allows) const;

 private:
  std::vector<int32_t> Sharing(std::string_view name) const;

  std::vector<std::string> names_;  // by id; "": the id is free
  std::vector<int32_t> free_;
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<uint32_t, std::vector<int32_t>> ids_of_trigram_;
};

}  // namespace graft
