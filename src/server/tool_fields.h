// What a chat request says of tools: which ones there are and whether the model may call them. Pure
// functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "server/field_reader.h"
#include "text/output/output_part.h"

namespace graft {

struct ToolRequest {
  std::vector<ToolSpec> tools;
  bool may_call = true;       // tool_choice is not "none"
  bool has_one_call = false;  // parallel_tool_calls is false
};

// Takes the fields "tools", "tool_choice" and "parallel_tool_calls".
void ReadTools(FieldReader& reader, size_t tools_max, ToolRequest* request);

}  // namespace graft
