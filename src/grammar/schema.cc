#include "grammar/schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "grammar/schema_reader.h"

namespace graft {
namespace {

constexpr int kDepthMax = 96;
constexpr int kNodesMax = 20000;  // of schemas, those that are read more than once each time

constexpr std::string_view kObjectKeywords[] = {
    "properties",    "required",      "additionalProperties", "patternProperties",
    "propertyNames", "minProperties", "maxProperties",        "unevaluatedProperties"};
constexpr std::string_view kArrayKeywords[] = {"items", "prefixItems", "minItems", "maxItems",
                                               "unevaluatedItems"};
constexpr std::string_view kStringKeywords[] = {"pattern", "minLength", "maxLength", "format"};
constexpr std::string_view kNumberKeywords[] = {"minimum", "maximum", "exclusiveMinimum",
                                                "exclusiveMaximum", "multipleOf"};
constexpr std::string_view kOtherKeywords[] = {"type",  "enum",  "const", "anyOf",
                                               "oneOf", "allOf", "$ref"};
constexpr std::string_view kRefused[] = {
    "not",           "if",          "then",        "else",          "dependentRequired",
    "contains",      "minContains", "maxContains", "uniqueItems",   "dependentSchemas",
    "dependencies",  "$dynamicRef", "$id",         "$recursiveRef", "additionalItems",
    "$dynamicAnchor"};

template <size_t kSize>
bool IsAmong(std::string_view name, const std::string_view (&names)[kSize]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool IsFollowed(std::string_view name) {
  return IsAmong(name, kObjectKeywords) || IsAmong(name, kArrayKeywords) ||
         IsAmong(name, kStringKeywords) || IsAmong(name, kNumberKeywords) ||
         IsAmong(name, kOtherKeywords);
}

// What a schema leaves unevaluated is told by itself alone, and not by what stands beside it.
Status CheckInner(const Keywords& keywords, const std::string& path) {
  for (const char* const name : {"unevaluatedProperties", "unevaluatedItems"}) {
    const OrderedJson* const value = FindKeyword(keywords, name);
    if (value == nullptr || *value == true) continue;
    return RefusedKeyword(path, name, "is not supported where other keywords stand around it");
  }
  return OkStatus();
}

bool IsWhole(const OrderedJson& value) {
  return value.is_number() && std::floor(value.get<double>()) == value.get<double>();
}

}  // namespace

const OrderedJson* FindKeyword(const Keywords& keywords, const char* name) {
  const auto it = keywords.find(name);
  return it == keywords.end() ? nullptr : &it->second;
}

std::string InnerPath(const std::string& path, const std::string& name) {
  return path.empty() ? name.substr(0, 80) : path + "." + name.substr(0, 80);
}

Status AtPlace(const std::string& path, const Status& status) {
  if (status.ok() || path.empty()) return status;
  return Status(status.code(), path + "." + status.message());
}

Status RefusedKeyword(const std::string& path, const std::string& name, const std::string& why) {
  return AtPlace(path, UnimplementedError(name + ": " + why));
}

Status WrongKeyword(const std::string& path, const std::string& name, const std::string& why) {
  return AtPlace(path, InvalidArgumentError(name + ": " + why));
}

Result<OrderedJson> ReadSchema(const OrderedJson& schema) {
  return SchemaReader(schema).ReadRoot();
}

Result<OrderedJson> SchemaReader::ReadRoot() {
  ASSIGN_OR_RETURN(Schema schema, Read(root_, ""));
  while (!unread_.empty()) {
    const std::string pointer = unread_.back();
    unread_.pop_back();
    ASSIGN_OR_RETURN(const OrderedJson* const target, Resolve(pointer, "$ref"));
    ASSIGN_OR_RETURN(Schema definition, Read(*target, pointer));
    if (!definition.has_value()) return WrongKeyword("", pointer, "no value is allowed there");
    definitions_[names_[pointer]] = std::move(*definition);
  }
  if (!schema.has_value()) {
    return WrongKeyword("", empty_.empty() ? "the schema" : empty_, "no value is allowed there");
  }
  RETURN_IF_ERROR(CheckEnds(*schema, definitions_));
  if (!definitions_.empty()) (*schema)["$defs"] = definitions_;
  return std::move(*schema);
}

Result<Schema> SchemaReader::Read(const OrderedJson& json, const std::string& path) {
  Keywords keywords;
  RETURN_IF_ERROR(Collect(json, path, &keywords));
  ++depth_;
  Result<Schema> schema = ReadKeywords(keywords, path);
  --depth_;
  if (schema.ok() && !schema->has_value() && !has_empty_) {
    has_empty_ = true;
    empty_ = path;
  }
  return schema;
}

Status SchemaReader::Collect(const OrderedJson& json, const std::string& path, Keywords* out) {
  if (depth_ > kDepthMax || ++num_nodes_ > kNodesMax) {
    return RefusedKeyword(path, "the schema", "is too large, or nests too deep");
  }
  if (json.is_boolean()) {
    if (!json.get<bool>()) (*out)["enum"] = OrderedJson::array();
    return OkStatus();
  }
  if (!json.is_object()) return WrongKeyword(path, "the schema", "must be an object or a boolean");
  for (const auto& [name, value] : json.items()) {
    RETURN_IF_ERROR(CollectOne(name, value, path, out));
  }
  const auto all = out->find("allOf");
  if (all != out->end()) {
    const OrderedJson members = all->second;
    out->erase(all);
    if (!members.is_array()) return WrongKeyword(path, "allOf", "must be a list");
    for (size_t i = 0; i < members.size(); ++i) {
      const std::string inner = InnerPath(path, "allOf[" + std::to_string(i) + "]");
      Keywords more;
      ++depth_;
      const Status status = Collect(members[i], inner, &more);
      --depth_;
      RETURN_IF_ERROR(status);
      RETURN_IF_ERROR(CheckInner(more, inner));
      RETURN_IF_ERROR(Merge(std::move(more), path, out));
    }
  }
  return out->size() > 1 ? Expand(path, out) : OkStatus();
}

Status SchemaReader::CollectOne(const std::string& name, const OrderedJson& value,
                                const std::string& path, Keywords* out) {
  if (name == "$id" && (path.empty() || path == "#")) return OkStatus();
  if (name == "uniqueItems" && value == false) return OkStatus();
  if (IsAmong(name, kRefused)) {
    return RefusedKeyword(path, name, "is not supported in schemas that answers are bound to");
  }
  if (!IsFollowed(name)) return OkStatus();
  if (name == "const") {
    return AtPlace(path, MergeKeywords({{"enum", OrderedJson::array({value})}}, out));
  }
  if (name == "enum" && (!value.is_array() || value.empty())) {
    return WrongKeyword(path, name, "must be a list with values");
  }
  if (name == "enum") return AtPlace(path, MergeKeywords({{name, value}}, out));
  (*out)[name] = value;
  return OkStatus();
}

Status SchemaReader::Merge(Keywords more, const std::string& path, Keywords* out) {
  if (more.contains("$ref") && more.size() + out->size() > 1) {
    RETURN_IF_ERROR(Expand(path, &more));
  }
  if (out->contains("$ref") && !more.empty()) RETURN_IF_ERROR(Expand(path, out));
  return AtPlace(path, MergeKeywords(more, out));
}

// What a reference leads to, in its place.
Status SchemaReader::Expand(const std::string& path, Keywords* keywords) {
  const auto it = keywords->find("$ref");
  if (it == keywords->end()) return OkStatus();
  if (!it->second.is_string()) return WrongKeyword(path, "$ref", "must be a string");
  ASSIGN_OR_RETURN(const OrderedJson* const target, Resolve(it->second.get<std::string>(), path));
  keywords->erase(it);
  Keywords more;
  ++depth_;
  const Status status = Collect(*target, path, &more);
  --depth_;
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(Expand(path, &more));
  RETURN_IF_ERROR(CheckInner(more, path));
  return AtPlace(path, MergeKeywords(more, keywords));
}

Result<const OrderedJson*> SchemaReader::Resolve(const std::string& reference,
                                                 const std::string& path) {
  if (reference != "#" && !reference.starts_with("#/")) {
    return RefusedKeyword(path, "$ref",
                          "leads to '" + reference.substr(0, 80) +
                              "'; here it may only lead to a place in the schema itself, "
                              "as '#/$defs/NAME' does");
  }
  std::string pointer;  // without percent signs
  for (size_t i = 1; i < reference.size(); ++i) {
    const auto digit = [&](size_t at) {
      const char c = at < reference.size() ? reference[at] : ' ';
      return c >= '0' && c <= '9'                 ? c - '0'
             : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 87
                                                  : -1;
    };
    if (reference[i] == '%' && digit(i + 1) >= 0 && digit(i + 2) >= 0) {
      pointer += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
      i += 2;
    } else {
      pointer += reference[i];
    }
  }
  const OrderedJson* at = &root_;
  size_t begin = 1;
  while (begin <= pointer.size() && !pointer.empty()) {
    const size_t end = std::min(pointer.find('/', begin), pointer.size());
    std::string name = pointer.substr(begin, end - begin);
    for (size_t i = 0; (i = name.find('~', i)) != std::string::npos; ++i) {
      if (name.compare(i, 2, "~1") == 0) name.replace(i, 2, "/");
      if (name.compare(i, 2, "~0") == 0) name.replace(i, 2, "~");
    }
    const bool is_index = at->is_array() && !name.empty() && name.size() < 6 &&
                          name.find_first_not_of("0123456789") == std::string::npos;
    const auto idx = is_index ? static_cast<size_t>(std::stoul(name)) : 0;
    if (at->is_object() && at->contains(name)) {
      at = &(*at)[name];
    } else if (is_index && idx < at->size()) {
      at = &(*at)[idx];
    } else {
      return WrongKeyword(path, "$ref",
                          "leads to '" + reference.substr(0, 80) + "', which is not there");
    }
    if (at->is_object() && at->contains("$id")) {
      return RefusedKeyword(path, "$ref", "leads through a schema with an $id of its own");
    }
    begin = end + 1;
  }
  return at;
}

Result<Schema> SchemaReader::ReadReference(const std::string& reference, const std::string& path) {
  RETURN_IF_ERROR(Resolve(reference, path).status());
  const auto [it, is_new] = names_.try_emplace(reference, "d" + std::to_string(names_.size()));
  if (is_new) unread_.push_back(reference);
  return Schema(OrderedJson{{"$ref", "#/$defs/" + it->second}});
}

Result<Schema> SchemaReader::ReadKeywords(const Keywords& keywords, const std::string& path) {
  if (keywords.empty()) return Schema(OrderedJson::object());
  if (const OrderedJson* const reference = FindKeyword(keywords, "$ref")) {
    if (!reference->is_string()) return WrongKeyword(path, "$ref", "must be a string");
    return ReadReference(reference->get<std::string>(), path);
  }
  if (FindKeyword(keywords, "anyOf") != nullptr) return ReadOptions(keywords, "anyOf", path);
  if (FindKeyword(keywords, "oneOf") != nullptr) return ReadOptions(keywords, "oneOf", path);
  if (FindKeyword(keywords, "enum") != nullptr) return ReadEnum(keywords, path);
  ASSIGN_OR_RETURN(const std::vector<std::string> types, TypesOf(keywords, path));
  if (types.empty() && FindKeyword(keywords, "type") == nullptr)
    return Schema(OrderedJson::object());
  OrderedJson options = OrderedJson::array();
  for (const std::string& type : types) {
    ASSIGN_OR_RETURN(Schema schema, ReadType(type, keywords, path));
    if (schema.has_value()) options.push_back(std::move(*schema));
  }
  if (options.empty()) return Schema();
  if (options.size() == 1) return Schema(std::move(options[0]));
  return Schema(OrderedJson{{"anyOf", std::move(options)}});
}

Result<Schema> SchemaReader::ReadEnum(const Keywords& keywords, const std::string& path) {
  OrderedJson values = OrderedJson::array();
  const OrderedJson* const type = FindKeyword(keywords, "type");
  for (const OrderedJson& value : keywords.at("enum")) {
    if (value.is_number() && !value.is_number_integer() &&
        std::abs(value.get<double>()) >= 9007199254740992.0) {
      return RefusedKeyword(path, "enum", "has a number beyond 2^53, where numbers are not exact");
    }
    if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) {
      return RefusedKeyword(path, "enum", "has a number beyond 2^63");
    }
    if (type == nullptr) {
      values.push_back(value);
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<std::string> types, TypesOf(keywords, path));
    const bool is_of_type = std::any_of(types.begin(), types.end(), [&value](const auto& name) {
      return (name == "string" && value.is_string()) || (name == "null" && value.is_null()) ||
             (name == "boolean" && value.is_boolean()) || (name == "object" && value.is_object()) ||
             (name == "array" && value.is_array()) || (name == "integer" && IsWhole(value)) ||
             (name == "number" && value.is_number());
    });
    if (is_of_type) values.push_back(value);
  }
  for (const auto& [name, value] : keywords) {
    if (name == "enum" || name == "type" || name == "format" || values.empty()) continue;
    return RefusedKeyword(path, name,
                          "beside enum or const is not supported; leave out the values that "
                          "it forbids");
  }
  if (values.empty()) return Schema();
  return Schema(OrderedJson{{"enum", std::move(values)}});
}

// What stands beside alternatives holds for each of them.
Result<Schema> SchemaReader::ReadOptions(const Keywords& keywords, const char* name,
                                         const std::string& path) {
  Keywords rest = keywords;
  const OrderedJson list = rest[name];
  rest.erase(name);
  if (!list.is_array() || list.empty())
    return WrongKeyword(path, name, "must be a list with schemas");
  OrderedJson options = OrderedJson::array();
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string inner = InnerPath(path, name + ("[" + std::to_string(i) + "]"));
    Keywords option;
    ++depth_;
    Status status = Collect(list[i], inner, &option);
    --depth_;
    if (status.ok() && !rest.empty()) status = CheckInner(option, inner);
    if (status.ok()) status = Merge(rest, inner, &option);
    RETURN_IF_ERROR(status);
    ++depth_;
    Result<Schema> schema = ReadKeywords(option, inner);
    --depth_;
    if (!schema.ok()) return schema.status();
    if (schema->has_value()) options.push_back(std::move(**schema));
  }
  if (options.empty()) return Schema();
  if (std::string_view(name) == "oneOf") RETURN_IF_ERROR(CheckDisjoint(options, path));
  if (options.size() == 1) return Schema(std::move(options[0]));
  return Schema(OrderedJson{{"anyOf", std::move(options)}});
}

// A value of two alternatives would be of none.
Status SchemaReader::CheckDisjoint(const OrderedJson& options, const std::string& path) {
  std::vector<OrderedJson> whole;
  for (const OrderedJson& option : options) {
    whole.push_back(option);
    if (!option.contains("$ref")) continue;
    for (const auto& [reference, name] : names_) {
      if (option["$ref"] != "#/$defs/" + name) continue;
      ASSIGN_OR_RETURN(const OrderedJson* const target, Resolve(reference, path));
      ASSIGN_OR_RETURN(Schema schema, Read(*target, path));
      if (schema.has_value()) whole.back() = std::move(*schema);
      break;
    }
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (AreDisjoint(whole[i], whole[k])) continue;
      return RefusedKeyword(
          path, "oneOf",
          "has alternatives that one value may be of both; they must differ by type or "
          "by the values of a required property, else use anyOf");
    }
  }
  return OkStatus();
}

}  // namespace graft
