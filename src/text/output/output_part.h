// What an assistant's output is made of, in the order that it was written: text for the reader,
// reasoning, and calls of tools. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace graft {

struct OutputPart {
  enum class Kind : uint8_t {
    kContent,
    kReasoning,
    kCall,       // a call begins; `text` is its function's name
    kArguments,  // more of the JSON text of its arguments
    kCallEnd,    // the call is whole
    // The call that began last turned out to be none. `text` is what the model wrote in its place,
    // as content, for readers that have not passed the call's beginning on.
    kCallDropped,
  };

  Kind kind;
  std::string text;
};

using OutputParts = std::vector<OutputPart>;

// Adds `text` to the last part where that is of this kind, else as a part of its own.
void AppendPart(OutputPart::Kind kind, std::string_view text, OutputParts* parts);

// A function that the model may call.
struct ToolSpec {
  std::string name;
  Json parameters;      // its JSON schema, or null
  bool strict = false;  // its arguments are bound to that
};

// Whether an argument of `tool`, which may be null, is a string, or no schema says what else it is.
bool IsStringArgument(const ToolSpec* tool, const std::string& key);

const ToolSpec* FindTool(const std::vector<ToolSpec>& tools, std::string_view name);

}  // namespace graft
