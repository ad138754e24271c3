// What the answer to a chat request is bound to, as a grammar's text. Any thread.
#pragma once

#include <string>

#include "http/api_error.h"
#include "openai/openai_request.h"
#include "text/output/output_parser.h"

namespace graft {

// "": it may be any text. `output` is what the answer is read with; null: it is one text.
ApiResult<std::string> ChatGrammarOf(const ChatRequest& request, const OutputOptions* output);

}  // namespace graft
