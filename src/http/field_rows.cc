#include "http/field_rows.h"

#include <utility>

#include "base/check.h"

namespace graft {

ApiFields::ApiFields(std::vector<ApiField> rows) : rows_(std::move(rows)) {
  for (size_t i = 0; i < rows_.size(); ++i) {
    CHECK(index_.emplace(rows_[i].name, i).second) << rows_[i].name << " has two rows";
  }
}

const ApiField* ApiFields::Find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &rows_[found->second];
}

}  // namespace graft
