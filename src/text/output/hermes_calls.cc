// Hermes and Qwen: <tool_call>{"name": ..., "arguments": {...}}</tool_call>, one for each call.
#include "text/output/json_call.h"

namespace graft {

std::vector<CallOpener> HermesOpeners() {
  return {{.mark = "<tool_call>",
           .make = [] { return NewMarkedJsonReader("</tool_call>", /*known=*/nullptr); }}};
}

}  // namespace graft
