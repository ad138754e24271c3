// /tokenize and /detokenize, with vLLM's fields. Any thread; a long text takes its time.
#pragma once

#include <string_view>

#include "http/http_message.h"
#include "keys/api_keys.h"
#include "openai/api_context.h"
#include "openai/openai_request.h"

namespace graft {

// A text, or a chat's prompt, as token ids.
HttpResponse AnswerTokenize(const ApiContext& context, const RequestLimits& limits,
                            const ApiKey& key, std::string_view body);

// Token ids as a text.
HttpResponse AnswerDetokenize(const ApiContext& context, const RequestLimits& limits,
                              const ApiKey& key, std::string_view body);

}  // namespace graft
