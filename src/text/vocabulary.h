// Token texts and their ids, both ways. Immutable once built, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"

namespace graft {

class Vocabulary {
 public:
  // Ids may have holes, but not so many that a hostile file costs memory.
  static Result<Vocabulary> Build(std::vector<std::pair<std::string, int64_t>> tokens);

  std::optional<int32_t> Id(std::string_view token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }
  // "" for an id that is not there.
  std::string_view Token(int32_t id) const {
    return id >= 0 && id < size() ? texts_[id] : std::string_view();
  }
  // One past the largest id.
  int32_t size() const { return static_cast<int32_t>(texts_.size()); }

 private:
  std::vector<char> bytes_;              // all texts, end to end
  std::vector<std::string_view> texts_;  // by id, into bytes_
  std::unordered_map<std::string_view, int32_t> ids_;
};

}  // namespace graft
