// Objects and arrays of schemas.
#include <algorithm>

#include "grammar/schema_reader.h"

namespace graft {
namespace {

constexpr int64_t kItemsMax = 4096;

constexpr std::string_view kTypeNames[] = {"object",  "array",   "string", "number",
                                           "integer", "boolean", "null"};

// What a schema is about that does not say its type.
struct KeywordType {
  const char* keyword;
  const char* type;
};
constexpr KeywordType kKeywordTypes[] = {{"properties", "object"},
                                         {"required", "object"},
                                         {"additionalProperties", "object"},
                                         {"patternProperties", "object"},
                                         {"propertyNames", "object"},
                                         {"minProperties", "object"},
                                         {"maxProperties", "object"},
                                         {"unevaluatedProperties", "object"},
                                         {"items", "array"},
                                         {"prefixItems", "array"},
                                         {"minItems", "array"},
                                         {"maxItems", "array"},
                                         {"unevaluatedItems", "array"},
                                         {"pattern", "string"},
                                         {"minLength", "string"},
                                         {"maxLength", "string"},
                                         {"format", "string"},
                                         {"minimum", "number"},
                                         {"maximum", "number"},
                                         {"exclusiveMinimum", "number"},
                                         {"exclusiveMaximum", "number"},
                                         {"multipleOf", "number"}};

bool HasName(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Result<std::vector<std::string>> NamesIn(const Keywords& keywords, const std::string& path) {
  std::vector<std::string> names;
  const OrderedJson* const required = FindKeyword(keywords, "required");
  if (required == nullptr) return names;
  if (!required->is_array()) return WrongKeyword(path, "required", "must be a list of names");
  for (const OrderedJson& name : *required) {
    if (!name.is_string()) return WrongKeyword(path, "required", "must be a list of names");
    if (!HasName(names, name.get<std::string>())) names.push_back(name.get<std::string>());
  }
  return names;
}

}  // namespace

// A type that nobody names is told by the keywords: what else the schema lets through is not
// drawn.
Result<std::vector<std::string>> SchemaReader::TypesOf(const Keywords& keywords,
                                                       const std::string& path) {
  std::vector<std::string> types;
  if (const OrderedJson* const type = FindKeyword(keywords, "type")) {
    const OrderedJson list = type->is_array() ? *type : OrderedJson::array({*type});
    for (const OrderedJson& one : list) {
      const std::string name = one.is_string() ? one.get<std::string>() : "";
      if (std::find(std::begin(kTypeNames), std::end(kTypeNames), name) == std::end(kTypeNames)) {
        return WrongKeyword(path, "type",
                            "must be of string, number, integer, boolean, object, array and null, "
                            "got " +
                                one.dump().substr(0, 80));
      }
      if (!HasName(types, name)) types.push_back(name);
    }
    if (HasName(types, "number")) std::erase(types, "integer");
    return types;
  }
  for (const auto& [keyword, type] : kKeywordTypes) {
    const bool is_there = FindKeyword(keywords, keyword) != nullptr;
    if (is_there && !HasName(types, type)) types.emplace_back(type);
  }
  return types;
}

Result<Schema> SchemaReader::ReadType(const std::string& type, const Keywords& keywords,
                                      const std::string& path) {
  if (type == "object") return ReadObject(keywords, path);
  if (type == "array") return ReadArray(keywords, path);
  if (type == "string" || type == "number" || type == "integer") {
    Result<Schema> schema = type == "string" ? ReadStringSchema(keywords)
                                             : ReadNumberSchema(keywords, type == "integer");
    if (!schema.ok()) return AtPlace(path, schema.status());
    return schema;
  }
  return Schema(OrderedJson{{"type", type}});
}

Result<int64_t> SchemaReader::CountOf(const Keywords& keywords, const char* name, int64_t otherwise,
                                      const std::string& path) {
  const OrderedJson* const value = FindKeyword(keywords, name);
  if (value == nullptr) return otherwise;
  const double count = value->is_number() ? value->get<double>() : -1.0;
  if (count < 0 || count != static_cast<double>(static_cast<int64_t>(std::min(count, 1e9)))) {
    return WrongKeyword(path, name, "must be a whole number, 0 or more");
  }
  if (count > kItemsMax) {
    return RefusedKeyword(path, name,
                          "is more than " + std::to_string(kItemsMax) + ", the most counted here");
  }
  return static_cast<int64_t>(count);
}

Result<Schema> SchemaReader::ReadObject(const Keywords& keywords, const std::string& path) {
  if (const OrderedJson* const rest = FindKeyword(keywords, "unevaluatedProperties")) {
    if (!rest->is_boolean()) {
      return RefusedKeyword(path, "unevaluatedProperties", "is supported as true or false alone");
    }
    // What stands in alternatives is part of them here.
    Keywords others = keywords;
    others.erase("unevaluatedProperties");
    if (*rest == false) others.try_emplace("additionalProperties", false);
    return ReadObject(others, path);
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> required, NamesIn(keywords, path));
  const OrderedJson* const properties = FindKeyword(keywords, "properties");
  if (properties != nullptr && !properties->is_object()) {
    return WrongKeyword(path, "properties", "must be an object");
  }
  const bool names_any = (properties != nullptr && !properties->empty()) || !required.empty();
  return names_any ? ReadProperties(keywords, path) : ReadOpenObject(keywords, path);
}

// An object with names has no others.
Result<Schema> SchemaReader::ReadProperties(const Keywords& keywords, const std::string& path) {
  for (const char* const name : {"patternProperties", "propertyNames"}) {
    if (FindKeyword(keywords, name) == nullptr) continue;
    return RefusedKeyword(path, name, "is not supported beside properties or required");
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> required, NamesIn(keywords, path));
  OrderedJson properties = OrderedJson::object();
  const OrderedJson* const named = FindKeyword(keywords, "properties");
  const OrderedJson none = OrderedJson::object();
  for (const auto& [name, json] : (named == nullptr ? none : *named).items()) {
    ASSIGN_OR_RETURN(Schema schema, Read(json, InnerPath(path, "properties." + name)));
    if (schema.has_value()) {
      properties[name] = std::move(*schema);
    } else if (HasName(required, name)) {
      return Schema();
    }
  }
  const OrderedJson* const additional = FindKeyword(keywords, "additionalProperties");
  for (const std::string& name : required) {
    if (properties.contains(name)) continue;
    ASSIGN_OR_RETURN(Schema schema, Read(additional == nullptr ? OrderedJson(true) : *additional,
                                         InnerPath(path, "additionalProperties")));
    if (!schema.has_value()) return Schema();
    properties[name] = std::move(*schema);
  }
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

Result<Schema> SchemaReader::ReadOpenObject(const Keywords& keywords, const std::string& path) {
  const OrderedJson* const patterns = FindKeyword(keywords, "patternProperties");
  const OrderedJson* const names = FindKeyword(keywords, "propertyNames");
  const OrderedJson* const additional = FindKeyword(keywords, "additionalProperties");
  const bool is_closed = FindKeyword(keywords, "properties") != nullptr && additional == nullptr &&
                         patterns == nullptr && names == nullptr;
  ASSIGN_OR_RETURN(Schema others,
                   Read(additional == nullptr ? OrderedJson(!is_closed) : *additional,
                        InnerPath(path, "additionalProperties")));
  OrderedJson schema = {{"type", "object"}};
  if (patterns != nullptr && !(patterns->is_object() && patterns->empty())) {
    if (!patterns->is_object()) return WrongKeyword(path, "patternProperties", "must be an object");
    if (patterns->size() > 1 || names != nullptr) {
      return RefusedKeyword(path, "patternProperties",
                            "is supported with one pattern and without propertyNames");
    }
    const std::string& pattern = patterns->begin().key();
    const std::string inner = InnerPath(path, "patternProperties." + pattern);
    Result<Schema> key = ReadStringSchema({{"pattern", pattern}});
    if (!key.ok()) return AtPlace(InnerPath(path, "patternProperties"), key.status());
    ASSIGN_OR_RETURN(Schema value, Read(patterns->begin().value(), inner));
    // Names that the pattern does not match are not drawn.
    if (value.has_value()) {
      schema["patternProperties"] = {{(**key)["pattern"].get<std::string>(), *value}};
    }
    others.reset();
  } else if (names != nullptr && others.has_value()) {
    Keywords key;
    RETURN_IF_ERROR(Collect(*names, InnerPath(path, "propertyNames"), &key));
    RETURN_IF_ERROR(Merge({{"type", "string"}}, InnerPath(path, "propertyNames"), &key));
    ASSIGN_OR_RETURN(Schema name, ReadKeywords(key, InnerPath(path, "propertyNames")));
    if (name.has_value() && !name->contains("type") && !name->contains("enum")) {
      return RefusedKeyword(path, "propertyNames", "must be one simple schema of strings");
    }
    if (name.has_value()) schema["propertyNames"] = std::move(*name);
    if (!name.has_value()) others.reset();
  }
  const bool is_empty = !others.has_value() && !schema.contains("patternProperties");
  schema["additionalProperties"] = others.has_value() ? *others : OrderedJson(false);
  if (others.has_value() && others->empty()) schema["additionalProperties"] = true;
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
  const bool is_open = num_prefix == 0 || min > num_prefix;
  ASSIGN_OR_RETURN(Schema item, Read(items == nullptr ? OrderedJson(is_open) : *items,
                                     InnerPath(path, "items")));
  if (!item.has_value() || max == num_prefix) {
    item.reset();
    max = num_prefix;
  }
  if (min > (max < 0 ? kItemsMax : max)) return Schema();
  OrderedJson schema = {{"type", "array"}};
  if (num_prefix > 0) schema["prefixItems"] = std::move(prefix);
  schema["items"] = item.has_value() ? *item : OrderedJson(false);
  if (min > 0) schema["minItems"] = min;
  if (max >= 0 && item.has_value()) schema["maxItems"] = max;
  return Schema(std::move(schema));
}

}  // namespace graft
