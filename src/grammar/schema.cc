#include "grammar/schema.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/strings.h"
#include "grammar/schema_reader.h"

namespace graft {
namespace {

constexpr int kDepthMax = 96;
constexpr int64_t kSchemaSteps = 32;    // what the least schema takes
constexpr size_t kIndexedMembers = 16;  // objects with more are looked up by an index
constexpr size_t kPathBytesMax = 200;   // of a reference, where messages begin with it

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

// What a schema leaves unevaluated is told by itself alone, and not by what stands beside it.
Status CheckInner(const Keywords& keywords, const std::string& path) {
  for (const char* const name : {"unevaluatedProperties", "unevaluatedItems"}) {
    const OrderedJson* const value = FindKeyword(keywords, name);
    if (value == nullptr || *value == true) continue;
    return RefusedKeyword(path, name, "is not supported where other keywords stand around it");
  }
  return OkStatus();
}

// A JSON pointer's ~1 and ~0 in a name.
std::string WithoutTildes(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape =
        text[i] == '~' && i + 1 < text.size() && (text[i + 1] == '0' || text[i + 1] == '1');
    plain += !is_escape ? text[i] : text[++i] == '0' ? '~' : '/';
  }
  return plain;
}

// The name of a definition, in what this reader wrote.
std::string ReferenceOf(const OrderedJson& reference) {
  return reference.get_ref<const std::string&>().substr(std::string_view("#/$defs/").size());
}

bool IsWhole(const OrderedJson& value) {
  return value.is_number() && std::floor(value.get<double>()) == value.get<double>();
}

}  // namespace

const OrderedJson* FindKeyword(const Keywords& keywords, const char* name) {
  const auto it = keywords.find(name);
  return it == keywords.end() ? nullptr : it->second.get();
}

std::string InnerPath(const std::string& path, const std::string& name) {
  return path.empty() ? name.substr(0, 80) : path + "." + name.substr(0, 80);
}

Status AtPlace(const std::string& path, const Status& status) {
  if (status.ok() || path.empty() || status.message().starts_with("the schema: ")) return status;
  return Status(status.code(), path + "." + status.message());
}

Status RefusedKeyword(const std::string& path, const std::string& name, const std::string& why) {
  return AtPlace(path, UnimplementedError(name + ": " + why));
}

Status WrongKeyword(const std::string& path, const std::string& name, const std::string& why) {
  return AtPlace(path, InvalidArgumentError(name + ": " + why));
}

void AddMember(OrderedJson* object, std::string name, OrderedJson value) {
  object->get_ref<OrderedJson::object_t&>().emplace_back(std::move(name), std::move(value));
}

Result<OrderedJson*> KeywordValue::Own(SchemaWork& work) {
  if (made_ == nullptr || made_.use_count() > 1) {
    RETURN_IF_ERROR(work.Take(StepsOf(*value_)));
    made_ = std::make_shared<OrderedJson>(*value_);
    value_ = made_.get();
  }
  return made_.get();
}

Result<OrderedJson> ReadSchema(const OrderedJson& schema, SchemaWork& work) {
  return SchemaReader(schema, work).ReadRoot();
}

Result<OrderedJson> ReadSchema(const OrderedJson& schema) {
  SchemaWork work;
  return ReadSchema(schema, work);
}

Result<OrderedJson> SchemaReader::ReadRoot() {
  ASSIGN_OR_RETURN(Schema schema, Read(root_, ""));
  while (!unread_.empty()) {
    const auto [target, reference] = unread_.back();
    unread_.pop_back();
    const std::string path = reference.substr(0, kPathBytesMax);
    ASSIGN_OR_RETURN(Schema definition, Read(*target, path));
    if (!definition.has_value()) return WrongKeyword("", path, "no value is allowed there");
    AddMember(&definitions_, names_.at(target), std::move(*definition));
  }
  if (!schema.has_value()) {
    return WrongKeyword("", empty_.empty() ? "the schema" : empty_, "no value is allowed there");
  }
  RETURN_IF_ERROR(CheckAlternatives());
  RETURN_IF_ERROR(CheckEnds(*schema, definitions_, work_));
  if (!definitions_.empty()) (*schema)["$defs"] = std::move(definitions_);
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
  if (depth_ > kDepthMax) {
    return RefusedKeyword(path, "the schema", "is too large, or nests too deep");
  }
  RETURN_IF_ERROR(work_.Take(kSchemaSteps + static_cast<int64_t>(json.size())));
  if (json.is_boolean()) {
    if (!json.get<bool>()) out->insert_or_assign("enum", KeywordValue::Made(OrderedJson::array()));
    return OkStatus();
  }
  if (!json.is_object()) return WrongKeyword(path, "the schema", "must be an object or a boolean");
  for (const auto& [name, value] : json.items()) {
    RETURN_IF_ERROR(CollectOne(name, value, path, out));
  }
  const auto all = out->find("allOf");
  if (all != out->end()) {
    const KeywordValue members = all->second;
    out->erase(all);
    if (!(*members).is_array()) return WrongKeyword(path, "allOf", "must be a list");
    for (size_t i = 0; i < (*members).size(); ++i) {
      const std::string inner = InnerPath(path, "allOf[" + std::to_string(i) + "]");
      Keywords more;
      ++depth_;
      const Status status = Collect((*members)[i], inner, &more);
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
  if (!IsAmong(name, kOtherKeywords) && !TellsType(name)) return OkStatus();
  if (name == "const") {
    RETURN_IF_ERROR(work_.Take(StepsOf(value)));
    const Keywords fixed = {{"enum", KeywordValue::Made(OrderedJson::array({value}))}};
    return AtPlace(path, MergeKeywords(fixed, out, work_));
  }
  if (name == "enum" && (!value.is_array() || value.empty())) {
    return WrongKeyword(path, name, "must be a list with values");
  }
  if (name == "enum") {
    return AtPlace(path, MergeKeywords({{name, KeywordValue::Of(value)}}, out, work_));
  }
  out->insert_or_assign(name, KeywordValue::Of(value));
  return OkStatus();
}

Status SchemaReader::Merge(Keywords more, const std::string& path, Keywords* out) {
  if (more.contains("$ref") && more.size() + out->size() > 1) {
    RETURN_IF_ERROR(Expand(path, &more));
  }
  if (out->contains("$ref") && !more.empty()) RETURN_IF_ERROR(Expand(path, out));
  return AtPlace(path, MergeKeywords(more, out, work_));
}

// What a reference leads to, in its place.
Status SchemaReader::Expand(const std::string& path, Keywords* keywords) {
  const auto it = keywords->find("$ref");
  if (it == keywords->end()) return OkStatus();
  const OrderedJson& reference = *it->second;
  if (!reference.is_string()) return WrongKeyword(path, "$ref", "must be a string");
  ASSIGN_OR_RETURN(const OrderedJson* const target,
                   Resolve(reference.get_ref<const std::string&>(), path));
  keywords->erase(it);
  Keywords more;
  ++depth_;
  Status status = Collect(*target, path, &more);
  if (status.ok()) status = Expand(path, &more);
  --depth_;
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(CheckInner(more, path));
  return AtPlace(path, MergeKeywords(more, keywords, work_));
}

Result<const OrderedJson*> SchemaReader::Resolve(const std::string& reference,
                                                 const std::string& path) {
  RETURN_IF_ERROR(work_.Take(StepsOf(reference)));
  const auto known = targets_.find(reference);
  if (known != targets_.end()) return known->second;
  ASSIGN_OR_RETURN(const OrderedJson* const target, FollowPointer(reference, path));
  targets_[reference] = target;
  return target;
}

// Null: there is none.
Result<const OrderedJson*> SchemaReader::FindMember(const OrderedJson& object,
                                                    const std::string& name) {
  if (object.size() <= kIndexedMembers) {
    const auto it = object.find(name);
    return it == object.end() ? static_cast<const OrderedJson*>(nullptr) : &*it;
  }
  const auto [index, is_new] = members_.try_emplace(&object);
  if (is_new) {
    RETURN_IF_ERROR(work_.Take(static_cast<int64_t>(object.size())));
    for (const auto& [key, value] : object.get_ref<const OrderedJson::object_t&>()) {
      index->second.emplace(key, &value);
    }
  }
  const auto it = index->second.find(name);
  return it == index->second.end() ? static_cast<const OrderedJson*>(nullptr) : it->second;
}

Result<const OrderedJson*> SchemaReader::FollowPointer(const std::string& reference,
                                                       const std::string& path) {
  if (reference != "#" && !reference.starts_with("#/")) {
    return RefusedKeyword(path, "$ref",
                          "leads to '" + reference.substr(0, 80) +
                              "'; here it may only lead to a place in the schema itself, "
                              "as '#/$defs/NAME' does");
  }
  const std::string pointer = PercentDecode(reference.substr(1));
  const OrderedJson* at = &root_;
  size_t begin = 1;  // behind the slash
  while (begin <= pointer.size() && !pointer.empty()) {
    const size_t end = std::min(pointer.find('/', begin), pointer.size());
    const std::string name = WithoutTildes(pointer.substr(begin, end - begin));
    const bool is_index = at->is_array() && !name.empty() && name.size() < 6 &&
                          name.find_first_not_of("0123456789") == std::string::npos;
    const auto idx = is_index ? static_cast<size_t>(std::stoul(name)) : 0;
    const OrderedJson* member = nullptr;
    if (at->is_object()) {
      ASSIGN_OR_RETURN(member, FindMember(*at, name));
    }
    if (member != nullptr) {
      at = member;
    } else if (is_index && idx < at->size()) {
      at = &(*at)[idx];
    } else {
      return WrongKeyword(path, "$ref",
                          "leads to '" + reference.substr(0, 80) + "', which is not there");
    }
    const OrderedJson* id = nullptr;
    if (at->is_object()) {
      ASSIGN_OR_RETURN(id, FindMember(*at, "$id"));
    }
    if (id != nullptr) {
      return RefusedKeyword(path, "$ref", "leads through a schema with an $id of its own");
    }
    begin = end + 1;
  }
  return at;
}

Result<Schema> SchemaReader::ReadReference(const std::string& reference, const std::string& path) {
  ASSIGN_OR_RETURN(const OrderedJson* const target, Resolve(reference, path));
  const auto [it, is_new] = names_.try_emplace(target, "d" + std::to_string(names_.size()));
  if (is_new) unread_.emplace_back(target, reference);
  return Schema(OrderedJson{{"$ref", "#/$defs/" + it->second}});
}

Result<Schema> SchemaReader::ReadKeywords(const Keywords& keywords, const std::string& path) {
  if (keywords.empty()) return Schema(OrderedJson::object());
  if (const OrderedJson* const reference = FindKeyword(keywords, "$ref")) {
    if (!reference->is_string()) return WrongKeyword(path, "$ref", "must be a string");
    return ReadReference(reference->get_ref<const std::string&>(), path);
  }
  if (FindKeyword(keywords, "anyOf") != nullptr) return ReadOptions(keywords, "anyOf", path);
  if (FindKeyword(keywords, "oneOf") != nullptr) return ReadOptions(keywords, "oneOf", path);
  if (FindKeyword(keywords, "enum") != nullptr) return ReadEnum(keywords, path);
  ASSIGN_OR_RETURN(const Names types, TypesOf(keywords, path));
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
  const OrderedJson& given = *FindKeyword(keywords, "enum");
  RETURN_IF_ERROR(work_.Take(StepsOf(given)));
  const bool has_type = FindKeyword(keywords, "type") != nullptr;
  Names types;
  if (has_type) {
    ASSIGN_OR_RETURN(types, TypesOf(keywords, path));
  }
  const auto is_of = [](const OrderedJson& value, const std::string& name) {
    return (name == "string" && value.is_string()) || (name == "null" && value.is_null()) ||
           (name == "boolean" && value.is_boolean()) || (name == "object" && value.is_object()) ||
           (name == "array" && value.is_array()) || (name == "integer" && IsWhole(value)) ||
           (name == "number" && value.is_number());
  };
  OrderedJson values = OrderedJson::array();
  for (const OrderedJson& value : given) {
    if (value.is_number() && !value.is_number_integer() &&
        std::abs(value.get<double>()) >= 9007199254740992.0) {
      return RefusedKeyword(path, "enum", "has a number beyond 2^53, where numbers are not exact");
    }
    if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) {
      return RefusedKeyword(path, "enum", "has a number beyond 2^63");
    }
    const bool is_meant =
        !has_type || std::any_of(types.begin(), types.end(),
                                 [&](const std::string& name) { return is_of(value, name); });
    if (is_meant) values.push_back(value);
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
  const KeywordValue list = rest.find(name)->second;
  rest.erase(name);
  if (!(*list).is_array() || (*list).empty())
    return WrongKeyword(path, name, "must be a list with schemas");
  OrderedJson options = OrderedJson::array();
  for (size_t i = 0; i < (*list).size(); ++i) {
    const std::string inner = InnerPath(path, name + ("[" + std::to_string(i) + "]"));
    Keywords option;
    ++depth_;
    Status status = Collect((*list)[i], inner, &option);
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
  if (std::string_view(name) == "oneOf" && options.size() > 1) {
    RETURN_IF_ERROR(NoteAlternatives(options, path));
  }
  if (options.size() == 1) return Schema(std::move(options[0]));
  return Schema(OrderedJson{{"anyOf", std::move(options)}});
}

// oneOf is taken as anyOf, so no value may fit two alternatives. A reference's target is known only
// at the end.
Status SchemaReader::NoteAlternatives(const OrderedJson& options, const std::string& path) {
  Alternatives alternatives = {.path = path, .marks = {}, .references = {}};
  for (const OrderedJson& option : options) {
    const auto reference = option.find("$ref");
    if (reference != option.end()) {
      alternatives.references.push_back(ReferenceOf(*reference));
    } else {
      ASSIGN_OR_RETURN(SchemaMarks marks, MarksOf(option, work_));
      alternatives.marks.push_back(std::move(marks));
    }
  }
  alternatives_.push_back(std::move(alternatives));
  return OkStatus();
}

Status SchemaReader::CheckAlternatives() {
  std::map<std::string, SchemaMarks> of_definitions;
  if (!alternatives_.empty()) {
    for (const auto& [name, definition] : definitions_.items()) {
      ASSIGN_OR_RETURN(of_definitions[name], MarksOf(definition, work_));
    }
  }
  for (const Alternatives& one : alternatives_) {
    std::vector<const SchemaMarks*> all;
    for (const SchemaMarks& marks : one.marks) all.push_back(&marks);
    for (const std::string& name : one.references) all.push_back(&of_definitions.at(name));
    ASSIGN_OR_RETURN(const bool differ, AllDiffer(all, work_));
    if (differ) continue;
    return RefusedKeyword(
        one.path, "oneOf",
        "has alternatives that one value may be of both; they must differ by type or "
        "by the values of a required property, else use anyOf");
  }
  return OkStatus();
}

}  // namespace graft
