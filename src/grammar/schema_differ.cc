// What tells the values of one schema from those of another: their types, the values of an enum, or
// of a property that all of them have.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "grammar/schema_reader.h"

namespace graft {
namespace {

// Bits of SchemaMarks::types.
uint32_t TypeBit(std::string_view type) {
  constexpr std::string_view kTypes[] = {"object", "array", "string", "number", "boolean", "null"};
  const auto it =
      std::find(std::begin(kTypes), std::end(kTypes), type == "integer" ? "number" : type);
  return uint32_t{1} << (it - std::begin(kTypes));
}

uint32_t TypeOfValue(const OrderedJson& value) {
  if (value.is_string()) return TypeBit("string");
  if (value.is_number()) return TypeBit("number");
  if (value.is_boolean()) return TypeBit("boolean");
  if (value.is_null()) return TypeBit("null");
  return TypeBit(value.is_object() ? "object" : "array");
}

uint32_t TypesOfSchema(const OrderedJson& schema) {
  const auto type = schema.find("type");
  if (type != schema.end()) return TypeBit(type->get_ref<const std::string&>());
  uint32_t types = 0;
  const auto values = schema.find("enum");
  if (values != schema.end()) {
    for (const OrderedJson& value : *values) types |= TypeOfValue(value);
    return types;
  }
  const auto options = schema.find("anyOf");
  if (options == schema.end()) return 0;
  for (const OrderedJson& option : *options) {
    const uint32_t more = TypesOfSchema(option);
    if (more == 0) return 0;
    types |= more;
  }
  return types;
}

SchemaMarks AllMarks(const OrderedJson& schema) {
  SchemaMarks marks;
  marks.types = TypesOfSchema(schema);
  const auto values = schema.find("enum");
  if (values != schema.end()) {
    marks.is_enum = true;
    for (const OrderedJson& value : *values) marks.values.push_back(ValueKey(value));
    std::sort(marks.values.begin(), marks.values.end());
    for (const std::string& value : marks.values) marks.steps += StepsOf(value);
  }
  const auto required = schema.find("required");
  if (required == schema.end()) return marks;
  std::set<std::string_view> names;
  for (const OrderedJson& name : *required) names.insert(name.get_ref<const std::string&>());
  for (const auto& [name, property] :
       schema["properties"].get_ref<const OrderedJson::object_t&>()) {
    if (names.contains(name)) marks.needed.emplace(name, AllMarks(property));
  }
  return marks;
}

bool HaveNoneInCommon(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  auto one = a.begin();
  auto other = b.begin();
  while (one != a.end() && other != b.end()) {
    if (*one == *other) return false;
    ++(*one < *other ? one : other);
  }
  return true;
}

Result<bool> TwoDiffer(const SchemaMarks& a, const SchemaMarks& b, SchemaWork& work) {
  RETURN_IF_ERROR(work.Take(1 + a.steps + b.steps));
  if (a.is_enum && b.is_enum) return HaveNoneInCommon(a.values, b.values);
  if (a.types != 0 && b.types != 0 && (a.types & b.types) == 0) return true;
  for (const auto& [name, marks] : a.needed) {
    RETURN_IF_ERROR(work.Take(StepsOf(name)));
    const auto it = b.needed.find(name);
    if (it == b.needed.end()) continue;
    ASSIGN_OR_RETURN(const bool differ, TwoDiffer(marks, it->second, work));
    if (differ) return true;
  }
  return false;
}

using ManyMarks = std::vector<const SchemaMarks*>;

// Whether all are enums, and no value is of two of them.
Result<bool> DifferByValues(const ManyMarks& schemas, SchemaWork& work) {
  for (const SchemaMarks* const one : schemas) {
    if (!one->is_enum) return false;
  }
  std::set<std::string_view> values;
  for (const SchemaMarks* const one : schemas) {
    RETURN_IF_ERROR(work.Take(one->steps));
    const std::set<std::string_view> own(one->values.begin(), one->values.end());
    for (const std::string_view value : own) {
      if (!values.insert(value).second) return false;
    }
  }
  return true;
}

// Whether one property, or their own values, tell all of them apart: what schemas are mostly like,
// and seen without a look at each pair.
Result<bool> DifferByOneMark(const ManyMarks& schemas, SchemaWork& work) {
  RETURN_IF_ERROR(work.Take(static_cast<int64_t>(schemas.size())));
  ASSIGN_OR_RETURN(const bool values_differ, DifferByValues(schemas, work));
  if (values_differ) return true;
  for (const auto& [name, marks] : schemas.front()->needed) {
    ManyMarks properties;
    for (const SchemaMarks* const one : schemas) {
      RETURN_IF_ERROR(work.Take(StepsOf(name)));
      const auto it = one->needed.find(name);
      if (it == one->needed.end()) break;
      properties.push_back(&it->second);
    }
    if (properties.size() < schemas.size()) continue;
    ASSIGN_OR_RETURN(const bool differ, DifferByValues(properties, work));
    if (differ) return true;
  }
  return false;
}

}  // namespace

std::string ValueKey(const OrderedJson& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    return "s" + std::to_string(text.size()) + ":" + text;
  }
  if (value.is_number_integer()) return "i" + value.dump();
  if (value.is_number()) {
    const auto number = value.get<double>();
    if (std::floor(number) == number && std::abs(number) < 9007199254740992.0) {
      return "i" + std::to_string(static_cast<int64_t>(number));
    }
    char digits[40];
    std::snprintf(digits, sizeof(digits), "d%.17g", number);
    return digits;
  }
  if (!value.is_structured()) return value.dump();
  std::vector<std::string> parts;
  if (value.is_array()) {
    for (const OrderedJson& inner : value) parts.push_back(ValueKey(inner));
  } else {
    for (const auto& [name, inner] : value.get_ref<const OrderedJson::object_t&>()) {
      parts.push_back("s" + std::to_string(name.size()) + ":" + name + "=" + ValueKey(inner));
    }
    std::sort(parts.begin(), parts.end());
  }
  std::string key(1, value.is_array() ? '[' : '{');
  for (const std::string& part : parts) key += part + ",";
  return key + (value.is_array() ? "]" : "}");
}

Result<SchemaMarks> MarksOf(const OrderedJson& schema, SchemaWork& work) {
  RETURN_IF_ERROR(work.Take(StepsOf(schema)));
  return AllMarks(schema);
}

Result<bool> AllDiffer(const std::vector<const SchemaMarks*>& schemas, SchemaWork& work) {
  // Those of one type among themselves, where each has one.
  std::map<uint32_t, std::vector<const SchemaMarks*>> by_types;
  uint32_t seen = 0;
  bool overlaps = false;
  for (const SchemaMarks* const one : schemas) {
    auto& group = by_types[one->types];
    overlaps |= one->types == 0 || (group.empty() && (seen & one->types) != 0);
    seen |= one->types;
    group.push_back(one);
  }
  if (overlaps) by_types = {{0, schemas}};
  for (const auto& [types, group] : by_types) {
    if (group.size() == 1) continue;
    ASSIGN_OR_RETURN(const bool differ_by_one, DifferByOneMark(group, work));
    if (differ_by_one) continue;
    for (size_t i = 0; i < group.size(); ++i) {
      for (size_t k = 0; k < i; ++k) {
        ASSIGN_OR_RETURN(const bool differ, TwoDiffer(*group[i], *group[k], work));
        if (!differ) return false;
      }
    }
  }
  return true;
}

}  // namespace graft
