// What a chat request says of tools: which ones there are and whether the model may call them. Pure
// functions; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "http/field_reader.h"
#include "text/output/output_part.h"

namespace graft {

// How a function stands in its tool: inside a "function", as chats have it, or in the tool itself,
// as /v1/responses has it.
enum class ToolForm : uint8_t { kNested, kFlat };

struct ToolRequest {
  std::vector<ToolSpec> tools;
  bool may_call = true;       // tool_choice is not "none"
  bool has_one_call = false;  // parallel_tool_calls is false, or one function is named
  bool must_call = false;     // tool_choice is "required", or names a function
  std::string named;          // that function

  // The field that binds calls to schemas; "": none does.
  const char* binds() const {
    if (must_call) return "tool_choice";
    const bool has_strict =
        std::any_of(tools.begin(), tools.end(), [](const ToolSpec& tool) { return tool.strict; });
    return may_call && has_strict ? "tools" : "";
  }
};

// Takes the fields "tools", "tool_choice" and "parallel_tool_calls".
void ReadTools(FieldReader& reader, size_t tools_max, ToolForm form, ToolRequest* request);

// Takes what is no word to the model out of a request's tools, as templates are shown them.
void DropHints(OrderedJson* tools);

}  // namespace graft
