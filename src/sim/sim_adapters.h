// The adapters of a simulation: a rank each, by number. Plain data.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

namespace graft {

struct SimAdapters {
  std::vector<int32_t> ranks;  // by number

  // What stands for a content hash.
  static std::string HashOf(int32_t adapter) { return std::to_string(adapter); }
  static int32_t NumberOf(const std::string& hash) {
    int32_t adapter = 0;
    std::from_chars(hash.data(), hash.data() + hash.size(), adapter);
    return adapter;
  }
  int32_t RankOf(int32_t adapter) const { return ranks[static_cast<size_t>(adapter)]; }
};

}  // namespace graft
