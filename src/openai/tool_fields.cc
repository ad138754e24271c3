#include "openai/tool_fields.h"

#include <string>

namespace graft {
namespace {

// Fields of a tool that clients and gateways add. They are hints to servers, and no template shows
// them.
constexpr std::initializer_list<const char*> kNoWordsOfTools = {
    "cache_control", "defer_loading", "extra_content", "metadata", "provider_specific_fields"};

std::optional<ApiError> ReadFunction(const Json& json, const std::string& path,
                                     std::vector<ToolSpec>* tools) {
  FieldReader nested(json, path);
  ToolSpec tool;
  nested.String("name", &tool.name, kNameBytesMax);
  if (tool.name.empty()) nested.Fail("name", "is required");
  // The schema is only shown where nothing binds a call to it, whatever it says. Where something
  // does, it is read then.
  if (const Json* parameters = nested.Take("parameters")) tool.parameters = *parameters;
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
  reader.Ignore(kNoWordsOfTools);
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

void DropHints(OrderedJson* tools) {
  if (!tools->is_array()) return;
  for (OrderedJson& tool : *tools) {
    if (!tool.is_object()) continue;
    const auto function = tool.find("function");
    if (function != tool.end() && function->is_object()) function->erase("cache_control");
    for (const char* name : kNoWordsOfTools) tool.erase(name);
  }
}

}  // namespace graft
