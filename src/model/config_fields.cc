#include "model/config_fields.h"

#include "base/json.h"
namespace graft {
namespace {

// What an error shows of a value: enough to recognise it.
std::string Shown(const Json& value) {
  std::string text = DumpJson(value);
  if (text.size() > 80) text = text.substr(0, 80) + "...";
  return text;
}

bool IsNumberIn(const Json& value, double min, double max) {
  return value.is_number() && value.get<double>() >= min && value.get<double>() <= max;
}

std::string RangeText(double min, double max) {
  return "[" + Shown(Json(min)) + ", " + Shown(Json(max)) + "]";
}

}  // namespace

bool IsNeutral(const Json& value) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0.0;
  return value.empty();
}

const Json* ConfigFields::Find(std::string_view name) const {
  const auto it = object_.find(std::string(name));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

bool ConfigFields::Mentions(std::string_view name) const {
  return object_.contains(std::string(name));
}

Result<int32_t> ConfigFields::Int(std::string_view name, int64_t min, int64_t max,
                                  std::optional<int64_t> absent) const {
  const Json* value = Find(name);
  if (value == nullptr) {
    if (!absent.has_value()) return Missing(name);
    return static_cast<int32_t>(*absent);
  }
  const bool in_range =
      value->is_number_integer() &&
      (!value->is_number_unsigned() || value->get<uint64_t>() <= uint64_t{INT64_MAX}) &&
      value->get<int64_t>() >= min && value->get<int64_t>() <= max;
  if (!in_range) {
    return Wrong(name, *value,
                 "an integer in [" + std::to_string(min) + ", " + std::to_string(max) + "]");
  }
  return static_cast<int32_t>(value->get<int64_t>());
}

Result<double> ConfigFields::Number(std::string_view name, double min, double max,
                                    std::optional<double> absent) const {
  const Json* value = Find(name);
  if (value == nullptr) {
    if (!absent.has_value()) return Missing(name);
    return *absent;
  }
  if (!IsNumberIn(*value, min, max)) {
    return Wrong(name, *value, "a number in " + RangeText(min, max));
  }
  return value->get<double>();
}

Result<std::vector<double>> ConfigFields::Numbers(std::string_view name, double min, double max,
                                                  size_t count) const {
  const Json* value = Find(name);
  if (value == nullptr) return Missing(name);
  std::vector<double> numbers;
  if (value->is_array() && value->size() == count) {
    for (const Json& number : *value) {
      if (IsNumberIn(number, min, max)) numbers.push_back(number.get<double>());
    }
  }
  if (numbers.size() != count) {
    return Wrong(name, *value,
                 "a list of " + std::to_string(count) + " numbers in " + RangeText(min, max));
  }
  return numbers;
}

Result<bool> ConfigFields::Bool(std::string_view name, bool absent) const {
  const Json* value = Find(name);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) return Wrong(name, *value, "true or false");
  return value->get<bool>();
}

Result<std::string> ConfigFields::String(std::string_view name, std::string absent) const {
  const Json* value = Find(name);
  if (value == nullptr) return absent;
  if (!value->is_string()) return Wrong(name, *value, "a string");
  return value->get<std::string>();
}

Status ConfigFields::Missing(std::string_view name) const {
  return InvalidArgumentError(prefix_ + std::string(name) + " is missing");
}

Status ConfigFields::Wrong(std::string_view name, const Json& value,
                           const std::string& expected) const {
  return InvalidArgumentError(prefix_ + std::string(name) + " is " + Shown(value) + ", expected " +
                              expected);
}

Status ConfigFields::Unsupported(std::string_view name, const Json& value,
                                 const std::string& supported) const {
  return UnimplementedError(prefix_ + std::string(name) + " " + Shown(value) +
                            " is not supported; supported: " + supported);
}

}  // namespace graft
