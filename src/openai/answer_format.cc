#include "openai/answer_format.h"

#include <utility>

#include "grammar/grammar_text.h"
#include "grammar/schema.h"
#include "openai/inner_json.h"
#include "openai/structural_tag.h"

namespace graft {
namespace {

using AnswerKind = AnswerFormat::Kind;

constexpr size_t kFormBytesMax = size_t{64} << 10;
constexpr size_t kChoicesMax = 1024;

bool Claim(FieldReader& reader, const std::string& name, const std::string& path, AnswerKind kind,
           AnswerFormat* format) {
  const std::string param = path + name;
  if (!format->is_text()) {
    reader.Fail(name, "and '" + format->param + "' exclude each other: an answer has one form");
    return false;
  }
  format->kind = kind;
  format->param = param;
  return true;
}

// A schema or a structural tag, as `kind` says, or the text of one.
void ReadFormField(FieldReader& reader, const char* name, const std::string& path, AnswerKind kind,
                   AnswerFormat* format) {
  const Json* const json = reader.Take(name);
  if (json == nullptr || !Claim(reader, name, path, kind, format)) return;
  const bool is_schema = kind == AnswerKind::kSchema;
  if (json->is_object() || (is_schema && json->is_boolean())) {
    format->schema = OrderedJson(*json);
    return;
  }
  if (json->is_string()) {
    Result<OrderedJson> parsed = ParseInnerOrderedJson(json->get_ref<const std::string&>());
    if (parsed.ok() && parsed->is_object()) {
      format->schema = std::move(*parsed);
      return;
    }
  }
  reader.Fail(name, is_schema ? "must be a JSON schema, or the text of one"
                              : "must be a structural tag, or the text of one");
}

void ReadTextField(FieldReader& reader, const char* name, const std::string& path, AnswerKind kind,
                   AnswerFormat* format) {
  std::string text;
  reader.String(name, &text, kFormBytesMax);
  if (text.empty() || !Claim(reader, name, path, kind, format)) return;
  format->text = std::move(text);
}

void ReadChoices(FieldReader& reader, const char* name, const std::string& path,
                 AnswerFormat* format) {
  std::vector<std::string> choices;
  reader.StringOrList(name, kChoicesMax, kFormBytesMax, &choices);
  if (choices.empty() || !Claim(reader, name, path, AnswerKind::kChoice, format)) return;
  for (const std::string& choice : choices) {
    if (choice.empty()) return reader.Fail(name, "must not hold an empty string");
  }
  format->choices = std::move(choices);
}

void FailAs(FieldReader& outer, FieldReader& nested) {
  if (auto error = nested.Finish()) outer.Fail(*error);
}

// The fields that name a schema, which `reader` is at.
void ReadNamedSchema(FieldReader& reader, const std::string& path, AnswerFormat* format) {
  std::string name;
  std::string description;
  std::optional<bool> strict;  // an answer is bound to its schema either way
  reader.String("name", &name, kNameBytesMax);
  if (name.empty()) reader.Fail("name", "is required");
  reader.String("description", &description, kFormBytesMax);
  reader.OptionalBool("strict", &strict);
  if (reader.Take("schema") == nullptr) reader.Fail("schema", "is required");
  ReadFormField(reader, "schema", path, AnswerKind::kSchema, format);
}

// Where the type says all there is to say; `more` names other types.
void ReadPlainType(FieldReader& reader, const std::string& path, const std::string& type,
                   AnswerFormat* format, const std::string& more = "") {
  if (type == "json_object") {
    Claim(reader, "type", path, AnswerKind::kJsonObject, format);
  } else if (type != "text") {
    reader.Fail("type",
                "must be 'text', 'json_object' or 'json_schema'" + more + ", got '" + type + "'");
  }
}

void ReadResponseFormat(FieldReader& reader, AnswerFormat* format) {
  const Json* const json = reader.Take("response_format");
  if (json == nullptr) return;
  const std::string path = "response_format.";
  if (json->is_object() && json->value("type", Json()) == "structural_tag") {
    return ReadFormField(reader, "response_format", "", AnswerKind::kTag, format);
  }
  FieldReader nested(*json, path);
  std::string type = "text";
  nested.String("type", &type, kNameBytesMax);
  const Json* const schema = nested.Take("json_schema");
  if (type == "json_schema" && schema != nullptr) {
    FieldReader inner(*schema, path + "json_schema.");
    ReadNamedSchema(inner, path + "json_schema.", format);
    FailAs(nested, inner);
  } else if (type == "json_schema") {
    nested.Fail("json_schema", "is required");
  } else if (schema != nullptr) {
    nested.Fail("json_schema", "goes with the type 'json_schema'");
  } else {
    ReadPlainType(nested, path, type, format, ", or 'structural_tag'");
  }
  FailAs(reader, nested);
}

void ReadStructuredOutputs(FieldReader& reader, AnswerFormat* format) {
  const Json* const json = reader.Take("structured_outputs");
  if (json == nullptr) return;
  const std::string path = "structured_outputs.";
  FieldReader nested(*json, path);
  ReadFormField(nested, "json", path, AnswerKind::kSchema, format);
  ReadTextField(nested, "regex", path, AnswerKind::kRegex, format);
  ReadTextField(nested, "grammar", path, AnswerKind::kGrammar, format);
  ReadChoices(nested, "choice", path, format);
  bool is_object = false;
  nested.Bool("json_object", &is_object);
  if (is_object) Claim(nested, "json_object", path, AnswerKind::kJsonObject, format);
  // Objects have no other properties anyway, and white space is bounded.
  nested.Ignore({"disable_fallback", "disable_any_whitespace", "disable_additional_properties"});
  ReadFormField(nested, "structural_tag", path, AnswerKind::kTag, format);
  nested.Refuse("whitespace_pattern");
  FailAs(reader, nested);
}

}  // namespace

void ReadTextFormat(FieldReader& reader, const Json& json, AnswerFormat* format) {
  const std::string path = "text.format.";
  FieldReader nested(json, path);
  std::string type = "text";
  nested.String("type", &type, kNameBytesMax);
  if (type == "json_schema") {
    ReadNamedSchema(nested, path, format);
  } else {
    ReadPlainType(nested, path, type, format);
  }
  FailAs(reader, nested);
}

void ReadAnswerFormat(FieldReader& reader, AnswerFormat* format) {
  ReadResponseFormat(reader, format);
  ReadStructuredOutputs(reader, format);
  ReadFormField(reader, "guided_json", "", AnswerKind::kSchema, format);
  ReadTextField(reader, "guided_regex", "", AnswerKind::kRegex, format);
  ReadChoices(reader, "guided_choice", "", format);
  ReadTextField(reader, "guided_grammar", "", AnswerKind::kGrammar, format);
}

void UseOrderOf(std::string_view body, AnswerFormat* format) {
  if (format->kind != AnswerKind::kSchema && format->kind != AnswerKind::kTag) return;
  const Result<OrderedJson> json = ParseOrderedJson(body);
  if (!json.ok()) return;  // it was read before
  const OrderedJson* at = &*json;
  for (size_t begin = 0; begin <= format->param.size();) {
    const size_t end = std::min(format->param.find('.', begin), format->param.size());
    const auto found = at->find(format->param.substr(begin, end - begin));
    if (found == at->end()) return;
    at = &*found;
    begin = end + 1;
  }
  if (at->is_object()) format->schema = *at;  // the text of one has its order
}

ApiResult<OrderedJson> SchemaFormatOf(const OrderedJson& schema, const std::string& param,
                                      SchemaWork& work) {
  const Result<OrderedJson> read = ReadSchema(schema, work);
  if (read.ok()) return SchemaFormat(*read);
  // The message opens with the place within the schema.
  const std::string& message = read.status().message();
  const bool has_place = !message.starts_with("the schema");
  const std::string place = has_place ? param + "." + message.substr(0, message.find(": ")) : param;
  ApiError error =
      InvalidRequestError(place, "'" + place + "' " + message.substr(message.find(": ") + 2));
  if (read.status().code() == StatusCode::kUnimplemented) error.code = "unsupported";
  return error;
}

ApiResult<OrderedJson> GrammarFormatOf(const AnswerFormat& format) {
  SchemaWork work;
  return GrammarFormatOf(format, work);
}

ApiResult<OrderedJson> GrammarFormatOf(const AnswerFormat& format, SchemaWork& work) {
  switch (format.kind) {
    case AnswerKind::kText:
      return OrderedJson();
    case AnswerKind::kJsonObject:
      return SchemaFormatOf({{"type", "object"}}, format.param, work);
    case AnswerKind::kSchema:
      return SchemaFormatOf(format.schema, format.param, work);
    case AnswerKind::kTag:
      return StructuralTagFormatOf(format.schema, format.param, work);
    case AnswerKind::kRegex:
      return RegexFormat(format.text);
    case AnswerKind::kGrammar:
      return EbnfFormat(format.text);
    case AnswerKind::kChoice:
      break;
  }
  std::vector<OrderedJson> choices;
  for (const std::string& choice : format.choices) choices.push_back(LiteralFormat(choice));
  return OneOfFormat(std::move(choices));
}

}  // namespace graft
