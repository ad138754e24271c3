// Objects and arrays of schemas.
#include <algorithm>
#include <span>

#include "grammar/schema_pattern.h"
#include "grammar/schema_reader.h"

namespace graft {
namespace {

constexpr std::string_view kTypeNames[] = {"object",  "array",   "string", "number",
                                           "integer", "boolean", "null"};

// What a schema is about that does not say its type.
constexpr std::string_view kObjectKeywords[] = {
    "properties",    "required",      "additionalProperties", "patternProperties",
    "propertyNames", "minProperties", "maxProperties",        "unevaluatedProperties"};
constexpr std::string_view kArrayKeywords[] = {"items", "prefixItems", "minItems", "maxItems",
                                               "unevaluatedItems"};
constexpr std::string_view kStringKeywords[] = {"pattern", "minLength", "maxLength", "format"};
constexpr std::string_view kNumberKeywords[] = {"minimum", "maximum", "exclusiveMinimum",
                                                "exclusiveMaximum", "multipleOf"};
constexpr std::pair<const char*, std::span<const std::string_view>> kKeywordsOf[] = {
    {"object", kObjectKeywords},
    {"array", kArrayKeywords},
    {"string", kStringKeywords},
    {"number", kNumberKeywords}};

}  // namespace

bool TellsType(const std::string& keyword) {
  return std::ranges::any_of(kKeywordsOf, [&](const auto& of_type) {
    return std::ranges::find(of_type.second, keyword) != of_type.second.end();
  });
}

Result<std::vector<std::string>> SchemaReader::NamesIn(const Keywords& keywords,
                                                       const std::string& path) {
  Names names;
  const OrderedJson* const required = FindKeyword(keywords, "required");
  if (required == nullptr) return names;
  if (!required->is_array()) return WrongKeyword(path, "required", "must be a list of names");
  RETURN_IF_ERROR(work_.Take(StepsOf(*required)));
  std::set<std::string_view> known;
  for (const OrderedJson& name : *required) {
    if (!name.is_string()) return WrongKeyword(path, "required", "must be a list of names");
    const auto& text = name.get_ref<const std::string&>();
    if (known.insert(text).second) names.push_back(text);
  }
  return names;
}

// Without the keyword "type" the other keywords tell the types; other values that the schema would
// let through are not drawn.
Result<std::vector<std::string>> SchemaReader::TypesOf(const Keywords& keywords,
                                                       const std::string& path) {
  Names types;
  const auto add = [&types](const std::string& name) {
    if (std::find(types.begin(), types.end(), name) == types.end()) types.push_back(name);
  };
  if (const OrderedJson* const type = FindKeyword(keywords, "type")) {
    RETURN_IF_ERROR(work_.Take(StepsOf(*type)));
    const OrderedJson list = type->is_array() ? *type : OrderedJson::array({*type});
    for (const OrderedJson& one : list) {
      const std::string name = one.is_string() ? one.get<std::string>() : "";
      if (std::find(std::begin(kTypeNames), std::end(kTypeNames), name) == std::end(kTypeNames)) {
        return WrongKeyword(path, "type",
                            "must be of string, number, integer, boolean, object, array and null, "
                            "got " +
                                one.dump().substr(0, 80));
      }
      add(name);
    }
    if (std::find(types.begin(), types.end(), "number") != types.end()) {
      std::erase(types, "integer");
    }
    return types;
  }
  for (const auto& [type, of_type] : kKeywordsOf) {
    for (const std::string_view keyword : of_type) {
      if (keywords.contains(keyword)) add(type);
    }
  }
  return types;
}

Result<Schema> SchemaReader::ReadType(const std::string& type, const Keywords& keywords,
                                      const std::string& path) {
  if (type == "object") return ReadObject(keywords, path);
  if (type == "array") return ReadArray(keywords, path);
  if (type == "string" || type == "number" || type == "integer") {
    Result<Schema> schema = type == "string" ? ReadStringSchema(keywords, work_)
                                             : ReadNumberSchema(keywords, type == "integer");
    if (!schema.ok()) return AtPlace(path, schema.status());
    return schema;
  }
  return Schema(OrderedJson{{"type", type}});
}

Result<int64_t> SchemaReader::CountOf(const Keywords& keywords, const char* name, int64_t otherwise,
                                      const std::string& path) {
  const Result<std::optional<int64_t>> count = CountIn(keywords, name);
  if (!count.ok()) return AtPlace(path, count.status());
  return count->value_or(otherwise);
}

Result<Schema> SchemaReader::ReadObject(const Keywords& keywords, const std::string& path) {
  if (const OrderedJson* const rest = FindKeyword(keywords, "unevaluatedProperties")) {
    if (!rest->is_boolean()) {
      return RefusedKeyword(path, "unevaluatedProperties", "is supported as true or false alone");
    }
    // What stands in alternatives is part of them here.
    Keywords others = keywords;
    others.erase("unevaluatedProperties");
    if (*rest == false) others.try_emplace("additionalProperties", KeywordValue::Made(false));
    return ReadObject(others, path);
  }
  const OrderedJson* const required = FindKeyword(keywords, "required");
  if (required != nullptr && !required->is_array()) {
    return WrongKeyword(path, "required", "must be a list of names");
  }
  const OrderedJson* const properties = FindKeyword(keywords, "properties");
  if (properties != nullptr && !properties->is_object()) {
    return WrongKeyword(path, "properties", "must be an object");
  }
  const bool names_any = (properties != nullptr && !properties->empty()) ||
                         (required != nullptr && !required->empty());
  if (names_any) return ReadProperties(keywords, path);
  const OrderedJson* const patterns = FindKeyword(keywords, "patternProperties");
  const bool has_patterns = patterns != nullptr && !(patterns->is_object() && patterns->empty());
  return has_patterns ? ReadPatternProperties(keywords, path) : ReadOpenObject(keywords, path);
}

// An object with names has no others.
Result<Schema> SchemaReader::ReadProperties(const Keywords& keywords, const std::string& path) {
  for (const char* const name : {"patternProperties", "propertyNames"}) {
    if (FindKeyword(keywords, name) == nullptr) continue;
    return RefusedKeyword(path, name, "is not supported beside properties or required");
  }
  ASSIGN_OR_RETURN(const Names required, NamesIn(keywords, path));
  const std::set<std::string_view> needed(required.begin(), required.end());
  std::set<std::string_view> known;
  OrderedJson properties = OrderedJson::object();
  const OrderedJson* const named = FindKeyword(keywords, "properties");
  const OrderedJson none = OrderedJson::object();
  for (const auto& [name, json] :
       (named == nullptr ? none : *named).get_ref<const OrderedJson::object_t&>()) {
    RETURN_IF_ERROR(work_.Take(StepsOf(name)));
    ASSIGN_OR_RETURN(Schema schema, Read(json, InnerPath(path, "properties." + name)));
    if (schema.has_value()) {
      AddMember(&properties, name, std::move(*schema));
      known.insert(name);
    } else if (needed.contains(name)) {
      return Schema();
    }
  }
  const OrderedJson* const additional = FindKeyword(keywords, "additionalProperties");
  const OrderedJson anything = true;
  for (const std::string& name : required) {
    if (known.contains(name)) continue;
    ASSIGN_OR_RETURN(Schema schema, Read(additional == nullptr ? anything : *additional,
                                         InnerPath(path, "additionalProperties")));
    if (!schema.has_value()) return Schema();
    AddMember(&properties, name, std::move(*schema));
  }
  return CountProperties(keywords, std::move(properties), required, path);
}

Result<Schema> SchemaReader::CountProperties(const Keywords& keywords, OrderedJson properties,
                                             const Names& required, const std::string& path) {
  const auto num_properties = static_cast<int64_t>(properties.size());
  OrderedJson schema = {{"type", "object"}};
  schema["properties"] = std::move(properties);
  if (!required.empty()) schema["required"] = required;
  schema["additionalProperties"] = false;
  ASSIGN_OR_RETURN(const int64_t min, CountOf(keywords, "minProperties", 0, path));
  ASSIGN_OR_RETURN(const int64_t max, CountOf(keywords, "maxProperties", num_properties, path));
  const auto num_required = static_cast<int64_t>(required.size());
  if (min > std::min(max, num_properties) || max < num_required) return Schema();
  if (min > num_required) schema["minProperties"] = min;
  if (max < num_properties) schema["maxProperties"] = max;
  if (num_properties == 0)
    return Schema(OrderedJson{{"type", "object"}, {"additionalProperties", false}});
  return Schema(std::move(schema));
}

// Names that the pattern does not match are not drawn.
Result<Schema> SchemaReader::ReadPatternProperties(const Keywords& keywords,
                                                   const std::string& path) {
  const OrderedJson& patterns = *FindKeyword(keywords, "patternProperties");
  if (!patterns.is_object()) return WrongKeyword(path, "patternProperties", "must be an object");
  if (patterns.size() > 1 || FindKeyword(keywords, "propertyNames") != nullptr) {
    return RefusedKeyword(path, "patternProperties",
                          "is supported with one pattern and without propertyNames");
  }
  const auto& [pattern, value] = patterns.get_ref<const OrderedJson::object_t&>().front();
  RETURN_IF_ERROR(work_.Take(StepsOf(pattern)));
  ASSIGN_OR_RETURN(const auto names, StringsOfPattern(pattern, work_));
  if (names.has_value()) return ReadNamesByPattern(keywords, *names, value, path);
  Result<Schema> key = ReadStringSchema({{"pattern", KeywordValue::Made(pattern)}}, work_);
  if (!key.ok()) return AtPlace(InnerPath(path, "patternProperties"), key.status());
  const std::string inner = InnerPath(path, "patternProperties." + pattern);
  ASSIGN_OR_RETURN(Schema read, Read(value, inner));
  OrderedJson schema = {{"type", "object"}};
  const bool is_empty = !read.has_value();
  if (!is_empty) {
    OrderedJson member = OrderedJson::object();
    AddMember(&member, (**key)["pattern"].get<std::string>(), std::move(*read));
    schema["patternProperties"] = std::move(member);
  }
  schema["additionalProperties"] = false;
  return CountOpenObject(keywords, std::move(schema), is_empty, path);
}

// Names that can be listed are properties, of which each comes once.
Result<Schema> SchemaReader::ReadNamesByPattern(const Keywords& keywords, const Names& names,
                                                const OrderedJson& value, const std::string& path) {
  OrderedJson properties = OrderedJson::object();
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(Schema schema, Read(value, InnerPath(path, "patternProperties." + name)));
    if (schema.has_value()) AddMember(&properties, name, std::move(*schema));
  }
  return CountProperties(keywords, std::move(properties), {}, path);
}

Result<Schema> SchemaReader::ReadOpenObject(const Keywords& keywords, const std::string& path) {
  const OrderedJson* const names = FindKeyword(keywords, "propertyNames");
  const OrderedJson* const additional = FindKeyword(keywords, "additionalProperties");
  const bool is_closed = FindKeyword(keywords, "properties") != nullptr &&
                         FindKeyword(keywords, "patternProperties") == nullptr && names == nullptr;
  const OrderedJson otherwise = !is_closed;
  ASSIGN_OR_RETURN(Schema others, Read(additional == nullptr ? otherwise : *additional,
                                       InnerPath(path, "additionalProperties")));
  OrderedJson schema = {{"type", "object"}};
  if (names != nullptr && others.has_value()) {
    const std::string inner = InnerPath(path, "propertyNames");
    const OrderedJson string = "string";
    Keywords key;
    RETURN_IF_ERROR(Collect(*names, inner, &key));
    RETURN_IF_ERROR(Merge({{"type", KeywordValue::Of(string)}}, inner, &key));
    ASSIGN_OR_RETURN(Schema name, ReadKeywords(key, inner));
    if (name.has_value() && !name->contains("type") && !name->contains("enum")) {
      return RefusedKeyword(path, "propertyNames", "must be one simple schema of strings");
    }
    if (name.has_value()) schema["propertyNames"] = std::move(*name);
    if (!name.has_value()) others.reset();
  }
  const bool is_empty = !others.has_value();
  schema["additionalProperties"] = is_empty          ? OrderedJson(false)
                                   : others->empty() ? OrderedJson(true)
                                                     : std::move(*others);
  return CountOpenObject(keywords, std::move(schema), is_empty, path);
}

Result<Schema> SchemaReader::CountOpenObject(const Keywords& keywords, OrderedJson schema,
                                             bool is_empty, const std::string& path) {
  ASSIGN_OR_RETURN(const int64_t min, CountOf(keywords, "minProperties", 0, path));
  ASSIGN_OR_RETURN(const int64_t max, CountOf(keywords, "maxProperties", -1, path));
  if (min > 0 && is_empty) return Schema();
  if (min > 1) {
    // One name drawn twice would count once.
    return RefusedKeyword(path, "minProperties", "above 1 needs properties");
  }
  if (max >= 0 && max < min) return Schema();
  if (is_empty) return Schema(OrderedJson{{"type", "object"}, {"additionalProperties", false}});
  if (min > 0) schema["minProperties"] = min;
  if (max >= 0) schema["maxProperties"] = max;
  return Schema(std::move(schema));
}

Result<Schema> SchemaReader::ReadArray(const Keywords& keywords, const std::string& path) {
  const OrderedJson* const first = FindKeyword(keywords, "prefixItems");
  const OrderedJson* items = FindKeyword(keywords, "items");
  if (items != nullptr && items->is_array()) {
    return RefusedKeyword(path, "items", "is a list; draft 2020-12 calls that prefixItems");
  }
  if (const OrderedJson* const rest = FindKeyword(keywords, "unevaluatedItems")) {
    if (!rest->is_boolean()) {
      return RefusedKeyword(path, "unevaluatedItems", "is supported as true or false alone");
    }
    if (items == nullptr) items = rest;
  }
  ASSIGN_OR_RETURN(const int64_t min, CountOf(keywords, "minItems", 0, path));
  ASSIGN_OR_RETURN(int64_t max, CountOf(keywords, "maxItems", -1, path));
  if (max >= 0 && max < min) return Schema();
  OrderedJson prefix = OrderedJson::array();
  if (first != nullptr && !first->is_array())
    return WrongKeyword(path, "prefixItems", "must be a list");
  for (size_t i = 0; first != nullptr && i < first->size(); ++i) {
    if (max >= 0 && static_cast<int64_t>(i) >= max) break;
    const std::string inner = InnerPath(path, "prefixItems[" + std::to_string(i) + "]");
    ASSIGN_OR_RETURN(Schema item, Read((*first)[i], inner));
    if (!item.has_value()) {
      max = static_cast<int64_t>(i);
      break;
    }
    prefix.push_back(std::move(*item));
  }
  const auto num_prefix = static_cast<int64_t>(prefix.size());
  // A list of named places has no others, unless it must.
  const OrderedJson is_open = num_prefix == 0 || min > num_prefix;
  ASSIGN_OR_RETURN(Schema item,
                   Read(items == nullptr ? is_open : *items, InnerPath(path, "items")));
  if (!item.has_value() || max == num_prefix) {
    item.reset();
    max = num_prefix;
  }
  if (min > (max < 0 ? kCountMax : max)) return Schema();
  OrderedJson schema = {{"type", "array"}};
  if (num_prefix > 0) schema["prefixItems"] = std::move(prefix);
  const bool is_open_ended = item.has_value();
  schema["items"] = is_open_ended ? std::move(*item) : OrderedJson(false);
  if (min > 0) schema["minItems"] = min;
  if (max >= 0 && is_open_ended) schema["maxItems"] = max;
  return Schema(std::move(schema));
}

}  // namespace graft
