// Typed, range-checked reading of one JSON object's fields, for config.json. A field that is null
// counts as absent. Errors name the field. Borrows the object; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/status.h"

namespace graft {

// Whether a field with this value means the same as none: null, false, 0 or empty.
bool IsNeutral(const Json& value);

class ConfigFields {
 public:
  // `prefix` stands before names in errors.
  ConfigFields(const Json& object, std::string prefix)
      : object_(object), prefix_(std::move(prefix)) {}

  const Json* Find(std::string_view name) const;
  bool Mentions(std::string_view name) const;

  // Without `absent` the field must be there.
  Result<int32_t> Int(std::string_view name, int64_t min, int64_t max,
                      std::optional<int64_t> absent = std::nullopt) const;
  Result<double> Number(std::string_view name, double min, double max,
                        std::optional<double> absent = std::nullopt) const;
  // A list of so many.
  Result<std::vector<double>> Numbers(std::string_view name, double min, double max,
                                      size_t count) const;
  Result<bool> Bool(std::string_view name, bool absent) const;
  Result<std::string> String(std::string_view name, std::string absent) const;

  Status Missing(std::string_view name) const;
  Status Wrong(std::string_view name, const Json& value, const std::string& expected) const;
  Status Unsupported(std::string_view name, const Json& value, const std::string& supported) const;

 private:
  const Json& object_;
  const std::string prefix_;
};

}  // namespace graft
