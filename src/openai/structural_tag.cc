#include "openai/structural_tag.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/grammar_text.h"
#include "http/field_reader.h"
#include "openai/answer_format.h"

namespace graft {
namespace {

constexpr int64_t kRepeatsMax = 4096;

enum class ValueKind : uint8_t {
  kText,
  kWords,
  kTexts,
  kBool,
  kCount,
  kSchema,
  kFormat,
  kFormats,
  kTags
};

struct TagField {
  const char* name;
  ValueKind kind;
  bool required = true;
};

struct TagType {
  const char* name;
  std::vector<TagField> fields;
};

const std::vector<TagType>& TagTypes() {
  static const std::vector<TagType> types = {
      {"const_string", {{"value", ValueKind::kWords}}},
      {"json_schema", {{"json_schema", ValueKind::kSchema}}},
      {"regex", {{"pattern", ValueKind::kWords}}},
      {"grammar", {{"grammar", ValueKind::kWords}}},
      {"any_text", {{"excludes", ValueKind::kTexts, false}}},
      {"sequence", {{"elements", ValueKind::kFormats}}},
      {"or", {{"elements", ValueKind::kFormats}}},
      {"optional", {{"content", ValueKind::kFormat}}},
      {"plus", {{"content", ValueKind::kFormat}}},
      {"star", {{"content", ValueKind::kFormat}}},
      {"repeat",
       {{"min", ValueKind::kCount}, {"max", ValueKind::kCount}, {"content", ValueKind::kFormat}}},
      {"tag",
       {{"begin", ValueKind::kText}, {"content", ValueKind::kFormat}, {"end", ValueKind::kTexts}}},
      {"triggered_tags",
       {{"triggers", ValueKind::kTexts},
        {"tags", ValueKind::kTags},
        {"excludes", ValueKind::kTexts, false},
        {"at_least_one", ValueKind::kBool, false},
        {"stop_after_first", ValueKind::kBool, false}}},
      {"tags_with_separator",
       {{"tags", ValueKind::kTags},
        {"separator", ValueKind::kText},
        {"at_least_one", ValueKind::kBool, false},
        {"stop_after_first", ValueKind::kBool, false}}},
  };
  return types;
}

ApiError Wrong(const std::string& param, const std::string& message) {
  return InvalidRequestError(param, "'" + param + "' " + message);
}

// Nesting is bounded as that of all JSON that is read.
class TagReader {
 public:
  explicit TagReader(SchemaWork& work) : work_(work) {}

  // `type_otherwise`: of what names none, if that may be so.
  ApiResult<OrderedJson> Read(const OrderedJson& json, const std::string& path,
                              const char* type_otherwise = nullptr);

 private:
  ApiResult<OrderedJson> ReadField(const OrderedJson& json, const std::string& path,
                                   ValueKind kind);
  ApiResult<OrderedJson> ReadTexts(const OrderedJson& json, const std::string& path);
  ApiResult<OrderedJson> ReadList(const OrderedJson& json, const std::string& path, ValueKind kind);

  SchemaWork& work_;
};

ApiResult<OrderedJson> TagReader::ReadTexts(const OrderedJson& json, const std::string& path) {
  const bool is_list =
      json.is_array() && !json.empty() &&
      std::all_of(json.begin(), json.end(), [](const OrderedJson& one) { return one.is_string(); });
  if (json.is_string() || is_list) return json;
  return Wrong(path, "must be a string or a list of strings");
}

ApiResult<OrderedJson> TagReader::ReadList(const OrderedJson& json, const std::string& path,
                                           ValueKind kind) {
  if (!json.is_array() || json.empty()) return Wrong(path, "must be a list with something in it");
  OrderedJson list = OrderedJson::array();
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string place = path + "[" + std::to_string(i) + "]";
    ASSIGN_OR_RETURN_ERROR(OrderedJson read,
                           Read(json[i], place, kind == ValueKind::kTags ? "tag" : nullptr));
    if (kind == ValueKind::kTags && read["type"] != "tag") return Wrong(place, "must be a tag");
    list.push_back(std::move(read));
  }
  return list;
}

ApiResult<OrderedJson> TagReader::ReadField(const OrderedJson& json, const std::string& path,
                                            ValueKind kind) {
  switch (kind) {
    case ValueKind::kText:
    case ValueKind::kWords:
      if (!json.is_string()) return Wrong(path, "must be a string");
      if (kind == ValueKind::kWords && json.empty()) return Wrong(path, "must not be empty");
      return json;
    case ValueKind::kTexts:
      return ReadTexts(json, path);
    case ValueKind::kBool:
      if (!json.is_boolean()) return Wrong(path, "must be a boolean");
      return json;
    case ValueKind::kCount:
      if (!json.is_number() || !IntegerOf(Json(json), 0, kRepeatsMax).has_value()) {
        return Wrong(path, "must be an integer between 0 and " + std::to_string(kRepeatsMax));
      }
      return json;
    case ValueKind::kSchema:
      return SchemaFormatOf(json, path, work_);
    case ValueKind::kFormat:
      return Read(json, path);
    case ValueKind::kFormats:
    case ValueKind::kTags:
      break;
  }
  return ReadList(json, path, kind);
}

ApiResult<OrderedJson> TagReader::Read(const OrderedJson& json, const std::string& path,
                                       const char* type_otherwise) {
  const auto given = json.is_object() ? json.find("type") : json.end();
  const bool names_type = given != json.end();
  if (!json.is_object() || (names_type ? !given->is_string() : type_otherwise == nullptr)) {
    return Wrong(path, "must be an object with a \"type\"");
  }
  const std::string name = names_type ? given->get<std::string>() : type_otherwise;
  const auto type = std::find_if(TagTypes().begin(), TagTypes().end(),
                                 [&](const TagType& one) { return one.name == name; });
  if (type == TagTypes().end()) {
    ApiError error = Wrong(path + ".type", "is not served: '" + name.substr(0, 80) + "'");
    error.code = "unsupported";
    return error;
  }
  OrderedJson out = {{"type", name}};
  size_t num_known = names_type ? 1 : 0;
  for (const TagField& field : type->fields) {
    const auto found = json.find(field.name);
    if (found == json.end() || found->is_null()) {
      if (field.required) return Wrong(path + "." + field.name, "is required");
      num_known += found != json.end() ? 1 : 0;
      continue;
    }
    ++num_known;
    ASSIGN_OR_RETURN_ERROR(OrderedJson value,
                           ReadField(*found, path + "." + field.name, field.kind));
    // A schema is a format of its own, with what bounds its white space.
    if (field.kind == ValueKind::kSchema) {
      out = std::move(value);
    } else {
      out[field.name] = std::move(value);
    }
  }
  if (num_known == json.size()) return out;
  for (const auto& [key, value] : json.items()) {
    const bool is_known = key == "type" || std::any_of(type->fields.begin(), type->fields.end(),
                                                       [&key = key](const TagField& field) {
                                                         return key == field.name;
                                                       });
    if (!is_known) return Wrong(path + "." + key.substr(0, 80), "is no field of '" + name + "'");
  }
  return out;
}

// {"begin", "schema", "end"} of vLLM before it had formats.
OrderedJson TagOfStructure(const OrderedJson& structure) {
  OrderedJson tag = structure;
  if (!tag.is_object() || !tag.contains("schema")) return tag;
  OrderedJson content = {{"type", "json_schema"}, {"json_schema", std::move(tag["schema"])}};
  tag.erase("schema");
  tag["content"] = std::move(content);
  return tag;
}

// What the reader calls by its own names, by those of structures.
ApiError InOlderWords(ApiError error) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {".tags", ".structures"}, {".content.json_schema", ".schema"}, {".content", ".schema"}};
  for (std::string* const text : {&error.param, &error.message}) {
    for (const auto& [word, older] : kWords) {
      const size_t at = text->find(word);
      if (at != std::string::npos) text->replace(at, word.size(), older);
    }
  }
  return error;
}

}  // namespace

ApiResult<OrderedJson> StructuralTagFormatOf(const OrderedJson& tag, const std::string& param,
                                             SchemaWork& work) {
  const bool has_format = tag.contains("format") && !tag["format"].is_null();
  const bool is_older = tag.contains("structures") || tag.contains("triggers");
  if (has_format == is_older) {
    return Wrong(param, "must have a \"format\", or \"structures\" and \"triggers\"");
  }
  if (has_format) return TagReader(work).Read(tag["format"], param + ".format");
  OrderedJson format = {{"type", "triggered_tags"}};
  if (tag.contains("triggers")) format["triggers"] = tag["triggers"];
  if (tag.contains("structures") && tag["structures"].is_array()) {
    format["tags"] = OrderedJson::array();
    for (const OrderedJson& structure : tag["structures"]) {
      format["tags"].push_back(TagOfStructure(structure));
    }
  }
  ApiResult<OrderedJson> read = TagReader(work).Read(format, param);
  if (!read.ok()) return InOlderWords(read.error());
  return read;
}

}  // namespace graft
