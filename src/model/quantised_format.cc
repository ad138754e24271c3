#include "model/quantised_format.h"

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/strings.h"

namespace graft {

std::span<const QuantisedFormat* const> QuantisedFormats() {
  static constexpr std::array<const QuantisedFormat*, 4> kFormats = {
      &kBitsandbytesFormat, &kCompressedTensorsFormat, &kGptqFormat, &kAwqFormat};
  return kFormats;
}

Status CheckFieldsKnown(const Json& json, const ConfigFields& fields,
                        std::initializer_list<std::string_view> read,
                        std::initializer_list<std::string_view> ignored) {
  const auto has = [](const std::initializer_list<std::string_view>& names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  for (const auto& [name, value] : json.items()) {
    if (has(read, name) || has(ignored, name) || IsNeutral(value)) continue;
    return fields.Unsupported(name, value, "checkpoints without it");
  }
  return OkStatus();
}

Result<std::vector<std::string>> ReadStrings(const ConfigFields& fields, std::string_view name) {
  constexpr size_t kStringsMax = 100000;
  std::vector<std::string> strings;
  const Json* const value = fields.Find(name);
  if (value == nullptr) return strings;
  if (!value->is_array() || value->size() > kStringsMax) {
    return fields.Wrong(name, *value, "a list of strings");
  }
  for (const Json& item : *value) {
    if (!item.is_string()) return fields.Wrong(name, *value, "a list of strings");
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

Result<int32_t> ReadBits(const ConfigFields& fields, std::string_view name,
                         std::initializer_list<int32_t> supported) {
  ASSIGN_OR_RETURN(const int32_t bits, fields.Int(name, 1, 64));
  if (std::ranges::find(supported, bits) != supported.end()) return bits;
  return fields.Unsupported(name, Json(bits), Joined(supported, " and ", [](int32_t one) {
                              return std::to_string(one);
                            }));
}

Result<int32_t> ReadGroupSize(const ConfigFields& fields, std::string_view name) {
  constexpr int64_t kGroupMax = int64_t{1} << 20;
  ASSIGN_OR_RETURN(const int32_t size, fields.Int(name, -1, kGroupMax, -1));
  if (size == 0) return fields.Wrong(name, Json(0), "-1, for all inputs, or more than 0");
  return size == -1 ? 0 : size;
}

Result<int64_t> GroupsOf(const ModuleTensors& tensors, const CodeScheme& scheme, int64_t k) {
  if (scheme.group_size == 0) return int64_t{1};
  RETURN_IF_ERROR(CheckDivides(tensors, "inputs", k, scheme.group_size));
  return k / scheme.group_size;
}

Status CheckDivides(const ModuleTensors& tensors, std::string_view what, int64_t n, int64_t step) {
  if (n % step == 0) return OkStatus();
  return InvalidArgumentError("the quantised weight " + tensors.module() + " has " +
                              std::to_string(n) + " " + std::string(what) +
                              ", which its quantisation cannot divide by " + std::to_string(step));
}

}  // namespace graft
