#include "server/tool_fields.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace graft {
namespace {

constexpr std::array<std::string_view, 7> kSchemaTypes = {"string", "number", "integer", "boolean",
                                                          "object", "array",  "null"};

ApiError SchemaError(const std::string& path, const std::string& message) {
  return InvalidRequestError(path, "'" + path + "' " + message);
}

std::optional<ApiError> CheckType(const Json& type, const std::string& path) {
  if (type.is_array()) {
    for (const Json& one : type) {
      if (one.is_array()) return SchemaError(path, "must be a type's name or a list of names");
      if (auto error = CheckType(one, path)) return error;
    }
    return std::nullopt;
  }
  if (!type.is_string()) {
    return SchemaError(
        path, std::string("must be a type's name or a list of names, got ") + JsonTypeName(type));
  }
  const std::string& name = type.get_ref<const std::string&>();
  if (std::find(kSchemaTypes.begin(), kSchemaTypes.end(), name) != kSchemaTypes.end()) {
    return std::nullopt;
  }
  return SchemaError(path, "is no type of JSON Schema: '" + name.substr(0, 80) +
                               "'; there are string, number, integer, boolean, object, array and "
                               "null");
}

// A schema, and those inside it, as far as a wrong type of it would mislead the model. Its nesting
// is bounded as that of the body.
std::optional<ApiError> CheckSchema(const Json& schema, const std::string& path) {
  if (schema.is_boolean()) return std::nullopt;
  if (!schema.is_object()) {
    return SchemaError(path, std::string("must be a JSON schema, got ") + JsonTypeName(schema));
  }
  for (const auto& [key, value] : schema.items()) {
    const std::string inner = path + "." + key.substr(0, 80);
    std::optional<ApiError> error;
    if (key == "type") {
      error = CheckType(value, inner);
    } else if (key == "properties" || key == "patternProperties" || key == "$defs" ||
               key == "definitions") {
      if (!value.is_object()) return SchemaError(inner, "must be an object");
      for (const auto& [name, one] : value.items()) {
        error = CheckSchema(one, inner + "." + name.substr(0, 80));
        if (error.has_value()) break;
      }
    } else if (key == "anyOf" || key == "oneOf" || key == "allOf" || key == "prefixItems") {
      if (!value.is_array()) return SchemaError(inner, "must be a list");
      for (size_t i = 0; i < value.size() && !error.has_value(); ++i) {
        error = CheckSchema(value[i], inner + "[" + std::to_string(i) + "]");
      }
    } else if ((key == "items" && !value.is_array()) || key == "additionalProperties" ||
               key == "not") {
      error = CheckSchema(value, inner);
    }
    if (error.has_value()) return error;
  }
  return std::nullopt;
}

std::optional<ApiError> ReadFunction(const Json& json, const std::string& path,
                                     std::vector<ToolSpec>* tools) {
  FieldReader nested(json, path);
  ToolSpec tool;
  nested.String("name", &tool.name, kNameBytesMax);
  if (tool.name.empty()) nested.Fail("name", "is required");
  if (FindTool(*tools, tool.name) != nullptr) {
    nested.Fail("name", "is that of an earlier tool, too: '" + tool.name + "'");
  }
  const auto is_odd = [](unsigned char c) { return c <= 0x20 || c == '"' || c == '\\'; };
  if (std::any_of(tool.name.begin(), tool.name.end(), is_odd)) {
    nested.Fail("name", "must have no white space, quotes or backslashes");
  }
  if (const Json* parameters = nested.Take("parameters")) {
    if (auto error = CheckSchema(*parameters, path + "parameters")) nested.Fail(*error);
    tool.parameters = *parameters;
  }
  nested.Bool("strict", &tool.strict);
  if (nested.failed()) return nested.Finish();
  // Templates show what else there is: a description, what the function returns.
  tools->push_back(std::move(tool));
  return std::nullopt;
}

std::optional<ApiError> ReadTool(const Json& json, const std::string& path, ToolForm form,
                                 std::vector<ToolSpec>* tools) {
  FieldReader reader(json, path);
  reader.OneOf("type", {"function"}, "the only kind of tools there is here");
  if (form == ToolForm::kFlat) {
    return reader.failed() ? reader.Finish() : ReadFunction(json, path, tools);
  }
  const Json* function = reader.Take("function");
  if (!reader.failed() && function == nullptr) reader.Fail("function", "is required");
  if (auto error = reader.Finish()) return error;
  return ReadFunction(*function, path + "function.", tools);
}

// {"type": "function", "function": {"name": ...}}, or with the name in the choice itself.
void ReadNamedChoice(FieldReader& reader, const Json& choice, ToolForm form, ToolRequest* request) {
  FieldReader outer(choice, "tool_choice.");
  std::string type;
  outer.String("type", &type, kNameBytesMax);
  if (!outer.failed() && type != "function") outer.Fail("type", "must be 'function'");
  const Json* const function = form == ToolForm::kNested ? outer.Take("function") : &choice;
  if (function == nullptr) outer.Fail("function", "is required");
  if (form == ToolForm::kFlat) outer.String("name", &request->named, kNameBytesMax);
  if (!outer.failed() && form == ToolForm::kNested) {
    FieldReader inner(*function, "tool_choice.function.");
    inner.String("name", &request->named, kNameBytesMax);
    if (auto error = inner.Finish()) outer.Fail(*error);
  }
  if (request->named.empty()) outer.Fail("name", "is required");
  if (auto error = outer.Finish()) reader.Fail(*error);
}

void ReadChoiceOfTools(FieldReader& reader, ToolForm form, ToolRequest* request) {
  const Json* const choice = reader.Take("tool_choice");
  if (choice == nullptr) return;
  request->may_call = *choice != "none";
  request->must_call = *choice == "required" || choice->is_object();
  if (choice->is_object()) {
    ReadNamedChoice(reader, *choice, form, request);
  } else if (*choice != "none" && *choice != "auto" && *choice != "required") {
    reader.Fail("tool_choice", "must be \"auto\", \"none\", \"required\" or name a function");
  }
}

}  // namespace

void ReadTools(FieldReader& reader, size_t tools_max, ToolForm form, ToolRequest* request) {
  ReadChoiceOfTools(reader, form, request);
  bool parallel = true;
  reader.Bool("parallel_tool_calls", &parallel);
  request->has_one_call = !parallel || !request->named.empty();
  const Json* tools = reader.Take("tools");
  if (tools == nullptr) {
    if (request->must_call) reader.Fail("tool_choice", "asks for a call, and there are no tools");
    return;
  }
  if (!tools->is_array() || tools->size() > tools_max) {
    return reader.Fail("tools",
                       "must be a list of at most " + std::to_string(tools_max) + " tools");
  }
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string path = "tools[" + std::to_string(i) + "].";
    if (auto error = ReadTool((*tools)[i], path, form, &request->tools)) return reader.Fail(*error);
  }
  if (request->must_call && request->tools.empty()) {
    reader.Fail("tool_choice", "asks for a call, and there are no tools");
  }
  if (!request->named.empty() && FindTool(request->tools, request->named) == nullptr) {
    reader.Fail("tool_choice", "names no function of 'tools': '" + request->named + "'");
  }
}

}  // namespace graft
