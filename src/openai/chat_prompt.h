// From a chat request to the text that the model goes on with, by its chat template, and to what
// its answer is read with. Any thread.
#pragma once

#include <memory>
#include <string>

#include "http/api_error.h"
#include "openai/api_context.h"
#include "openai/chat_text.h"
#include "openai/openai_request.h"
#include "text/output/output_parser.h"
#include "text/text_range.h"

namespace graft {

struct RenderedChat {
  std::string text;
  TextRanges untrusted;  // what the client wrote, where that may spell no special tokens
};

ApiResult<RenderedChat> RenderChat(const ApiContext& context, const ChatText& chat_text,
                                   ChatRequest* request);

// How the answer to `prompt` is taken apart, or null where it is text alone. Moves the request's
// tools out. 400 where it is not known how this model writes calls.
ApiResult<std::shared_ptr<const OutputOptions>> OutputOptionsOf(const ChatText& chat_text,
                                                                ChatRequest* request,
                                                                const std::string& prompt);

// The special tokens that these options look for in a text.
std::vector<int32_t> MarkTokensOf(const OutputOptions& options, const Tokenizer& tokenizer);

}  // namespace graft
