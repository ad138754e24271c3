// What two sets of keywords say together.
#include <algorithm>
#include <string>

#include "grammar/schema_reader.h"

namespace graft {
namespace {

bool HasValue(const OrderedJson& list, const OrderedJson& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

OrderedJson AsList(const OrderedJson& value) {
  return value.is_array() ? value : OrderedJson::array({value});
}

// "integer" is a part of "number".
OrderedJson CommonTypes(const OrderedJson& a, const OrderedJson& b) {
  OrderedJson common = OrderedJson::array();
  for (const OrderedJson& type : AsList(a)) {
    if (HasValue(AsList(b), type) || (type == "integer" && HasValue(AsList(b), "number"))) {
      common.push_back(type);
    } else if (type == "number" && HasValue(AsList(b), "integer")) {
      common.push_back("integer");
    }
  }
  return common;
}

OrderedJson CommonValues(const OrderedJson& a, const OrderedJson& b) {
  OrderedJson common = OrderedJson::array();
  for (const OrderedJson& value : a) {
    if (HasValue(b, value)) common.push_back(value);
  }
  return common;
}

OrderedJson Both(const OrderedJson& a, const OrderedJson& b) {
  if (a == b) return a;
  return {{"allOf", OrderedJson::array({a, b})}};
}

void AddProperties(const OrderedJson& more, OrderedJson* properties) {
  for (const auto& [name, schema] : more.items()) {
    const auto it = properties->find(name);
    if (it == properties->end()) {
      (*properties)[name] = schema;
    } else {
      *it = Both(*it, schema);
    }
  }
}

void AddNames(const OrderedJson& more, OrderedJson* names) {
  for (const OrderedJson& name : more) {
    if (!HasValue(*names, name)) names->push_back(name);
  }
}

bool IsLowerBound(const std::string& name) {
  return name == "minimum" || name == "exclusiveMinimum" || name == "minLength" ||
         name == "minItems" || name == "minProperties";
}

bool IsUpperBound(const std::string& name) {
  return name == "maximum" || name == "exclusiveMaximum" || name == "maxLength" ||
         name == "maxItems" || name == "maxProperties";
}

Status MergeOne(const std::string& name, const OrderedJson& more, OrderedJson* value) {
  if (*value == more) return OkStatus();
  if (name == "type") {
    *value = CommonTypes(*value, more);
  } else if (name == "enum" && value->is_array()) {
    *value = CommonValues(*value, more);
  } else if (name == "properties" && value->is_object() && more.is_object()) {
    AddProperties(more, value);
  } else if (name == "required" && value->is_array() && more.is_array()) {
    AddNames(more, value);
  } else if (name == "items" || name == "propertyNames") {
    *value = Both(*value, more);
  } else if (IsLowerBound(name) && value->is_number() && more.is_number()) {
    if (more.get<double>() > value->get<double>()) *value = more;
  } else if (IsUpperBound(name) && value->is_number() && more.is_number()) {
    if (more.get<double>() < value->get<double>()) *value = more;
  } else {
    return UnimplementedError(name +
                              ": is said twice of one value (by allOf, a reference or an "
                              "alternative and beside it), which cannot be put together here");
  }
  return OkStatus();
}

// Whether `a` says of properties that it does not name what `b` names.
bool ClosesOver(const Keywords& a, const Keywords& b) {
  const OrderedJson* const additional = FindKeyword(a, "additionalProperties");
  if (additional == nullptr || *additional == true) return false;
  const OrderedJson* const named = FindKeyword(b, "properties");
  if (named == nullptr || !named->is_object()) return false;
  const OrderedJson* const own = FindKeyword(a, "properties");
  for (const auto& [name, schema] : named->items()) {
    if (own == nullptr || !own->contains(name)) return true;
  }
  return false;
}

}  // namespace

Status MergeKeywords(const Keywords& more, Keywords* keywords) {
  // Which places `items` is about is told by what stands beside it alone.
  const bool has_prefix = more.contains("prefixItems");
  if (has_prefix != keywords->contains("prefixItems") &&
      (has_prefix ? *keywords : more).contains("items")) {
    return UnimplementedError("prefixItems: stands apart from items, which cannot be put together");
  }
  if (ClosesOver(more, *keywords) || ClosesOver(*keywords, more)) {
    return UnimplementedError(
        "additionalProperties: is about names that stand elsewhere (in allOf, a reference or an "
        "alternative), which cannot be put together here");
  }
  for (const auto& [name, value] : more) {
    const auto [it, is_new] = keywords->try_emplace(name, value);
    if (is_new) continue;
    if (name == "additionalProperties" && value == true) continue;
    if (name == "additionalProperties" && it->second == true) {
      it->second = value;
      continue;
    }
    RETURN_IF_ERROR(MergeOne(name, value, &it->second));
  }
  return OkStatus();
}

}  // namespace graft
