// What two sets of keywords say together.
#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "grammar/schema_reader.h"

namespace graft {
namespace {

OrderedJson AsList(const OrderedJson& value) {
  return value.is_array() ? value : OrderedJson::array({value});
}

std::set<std::string> KeysOf(const OrderedJson& list) {
  std::set<std::string> keys;
  for (const OrderedJson& value : list) keys.insert(ValueKey(value));
  return keys;
}

// "integer" is a part of "number".
OrderedJson CommonTypes(const OrderedJson& a, const OrderedJson& b) {
  OrderedJson common = OrderedJson::array();
  const std::set<std::string> others = KeysOf(AsList(b));
  const auto has = [&others](const char* type) { return others.contains(ValueKey(type)); };
  for (const OrderedJson& type : AsList(a)) {
    if (others.contains(ValueKey(type)) || (type == "integer" && has("number"))) {
      common.push_back(type);
    } else if (type == "number" && has("integer")) {
      common.push_back("integer");
    }
  }
  return common;
}

OrderedJson CommonValues(const OrderedJson& a, const OrderedJson& b) {
  OrderedJson common = OrderedJson::array();
  const std::set<std::string> others = KeysOf(b);
  for (const OrderedJson& value : a) {
    if (others.contains(ValueKey(value))) common.push_back(value);
  }
  return common;
}

// Changes `value` to what both say. A third one joins the list of the first two, so that no number
// of them nests deep.
Status AddSchema(const OrderedJson& more, OrderedJson* value, SchemaWork& work) {
  RETURN_IF_ERROR(work.Take(StepsOf(*value) + StepsOf(more)));
  if (*value == more) return OkStatus();
  const bool is_list = value->is_object() && value->size() == 1 && value->contains("allOf") &&
                       (*value)["allOf"].is_array();
  if (!is_list) {
    OrderedJson list = OrderedJson::array();
    list.push_back(std::move(*value));
    *value = OrderedJson::object();
    AddMember(value, "allOf", std::move(list));
  }
  (*value)["allOf"].push_back(more);
  return OkStatus();
}

Status AddProperties(const OrderedJson& more, OrderedJson* properties, SchemaWork& work) {
  RETURN_IF_ERROR(work.Take(static_cast<int64_t>(properties->size()) + StepsOf(more)));
  std::map<std::string, size_t> places;
  auto& members = properties->get_ref<OrderedJson::object_t&>();
  for (const auto& [name, schema] : members) places.emplace(name, places.size());
  for (const auto& [name, schema] : more.items()) {
    const auto it = places.find(name);
    if (it == places.end()) {
      AddMember(properties, name, schema);
    } else {
      RETURN_IF_ERROR(AddSchema(
          schema, &(members.begin() + static_cast<std::ptrdiff_t>(it->second))->second, work));
    }
  }
  return OkStatus();
}

void AddNames(const OrderedJson& more, OrderedJson* names) {
  std::set<std::string> known = KeysOf(*names);
  for (const OrderedJson& name : more) {
    if (known.insert(ValueKey(name)).second) names->push_back(name);
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

Status MergeOne(const std::string& name, const OrderedJson& more, KeywordValue* said,
                SchemaWork& work) {
  const OrderedJson& before = **said;
  if (&before == &more) return OkStatus();
  RETURN_IF_ERROR(work.Take(StepsOf(before) + StepsOf(more)));
  if (before == more) return OkStatus();
  if (name == "type") {
    *said = KeywordValue::Made(CommonTypes(before, more));
  } else if (name == "enum" && before.is_array()) {
    *said = KeywordValue::Made(CommonValues(before, more));
  } else if (name == "properties" && before.is_object() && more.is_object()) {
    ASSIGN_OR_RETURN(OrderedJson* const own, said->Own(work));
    return AddProperties(more, own, work);
  } else if (name == "required" && before.is_array() && more.is_array()) {
    ASSIGN_OR_RETURN(OrderedJson* const own, said->Own(work));
    AddNames(more, own);
  } else if (name == "items" || name == "propertyNames") {
    ASSIGN_OR_RETURN(OrderedJson* const own, said->Own(work));
    return AddSchema(more, own, work);
  } else if (IsLowerBound(name) && before.is_number() && more.is_number()) {
    if (more.get<double>() > before.get<double>()) *said = KeywordValue::Made(more);
  } else if (IsUpperBound(name) && before.is_number() && more.is_number()) {
    if (more.get<double>() < before.get<double>()) *said = KeywordValue::Made(more);
  } else {
    return UnimplementedError(name +
                              ": is said twice of one value (by allOf, a reference or an "
                              "alternative and beside it), which cannot be put together here");
  }
  return OkStatus();
}

// Whether `a` says of properties that it does not name what `b` names.
Result<bool> ClosesOver(const Keywords& a, const Keywords& b, SchemaWork& work) {
  const OrderedJson* const additional = FindKeyword(a, "additionalProperties");
  if (additional == nullptr || *additional == true) return false;
  const OrderedJson* const named = FindKeyword(b, "properties");
  if (named == nullptr || !named->is_object()) return false;
  const OrderedJson* const own = FindKeyword(a, "properties");
  const OrderedJson none = OrderedJson::object();
  std::set<std::string_view> names;
  const OrderedJson& given = own == nullptr || !own->is_object() ? none : *own;
  for (const auto& [name, schema] : given.get_ref<const OrderedJson::object_t&>()) {
    RETURN_IF_ERROR(work.Take(StepsOf(name)));
    names.insert(name);
  }
  for (const auto& [name, schema] : named->get_ref<const OrderedJson::object_t&>()) {
    RETURN_IF_ERROR(work.Take(StepsOf(name)));
    if (!names.contains(name)) return true;
  }
  return false;
}

}  // namespace

Status MergeKeywords(const Keywords& more, Keywords* keywords, SchemaWork& work) {
  // Which places `items` is about is told by what stands beside it alone.
  const bool has_prefix = more.contains("prefixItems");
  if (has_prefix != keywords->contains("prefixItems") &&
      (has_prefix ? *keywords : more).contains("items")) {
    return UnimplementedError("prefixItems: stands apart from items, which cannot be put together");
  }
  ASSIGN_OR_RETURN(const bool more_closes, ClosesOver(more, *keywords, work));
  ASSIGN_OR_RETURN(const bool these_close, ClosesOver(*keywords, more, work));
  if (more_closes || these_close) {
    return UnimplementedError(
        "additionalProperties: is about names that stand elsewhere (in allOf, a reference or an "
        "alternative), which cannot be put together here");
  }
  for (const auto& [name, value] : more) {
    const auto [it, is_new] = keywords->try_emplace(name, value);
    if (is_new) continue;
    if (name == "additionalProperties" && *value == true) continue;
    if (name == "additionalProperties" && *it->second == true) {
      it->second = value;
      continue;
    }
    RETURN_IF_ERROR(MergeOne(name, *value, &it->second, work));
  }
  return OkStatus();
}

}  // namespace graft
