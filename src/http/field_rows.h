// What becomes of the fields of a JSON object that a client sends: one row each. A field without a
// row is refused by name, unless its value is null, {} or []. Immutable; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"

namespace graft {

enum class FieldUse : uint8_t {
  kRead,     // does what the row says
  kIgnored,  // changes no token, so that every client may send it
  kRefused,  // is not served, but clients send it with a value that asks for nothing
};

struct ApiField {
  const char* name;
  FieldUse use = FieldUse::kRead;
  // For kRefused: JSON of the value that asks for nothing, besides null and what is empty.
  const char* neutral = "";
};

// The rows of one object.
class ApiFields {
 public:
  explicit ApiFields(std::vector<ApiField> rows) : rows_(std::move(rows)) {
    for (size_t i = 0; i < rows_.size(); ++i) {
      CHECK(index_.emplace(rows_[i].name, i).second) << rows_[i].name << " has two rows";
    }
  }

  const ApiField* Find(std::string_view name) const {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &rows_[found->second];
  }
  const std::vector<ApiField>& rows() const { return rows_; }

 private:
  std::vector<ApiField> rows_;
  std::unordered_map<std::string_view, size_t> index_;
};

}  // namespace graft
