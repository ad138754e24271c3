// /tokenize and /detokenize, with vLLM's fields. Any thread; a long text takes its time.
#pragma once

#include <string_view>

#include "server/api_keys.h"
#include "server/http_message.h"
#include "server/openai_request.h"
#include "server/server_context.h"

namespace graft {

// A text, or a chat's prompt, as token ids.
HttpResponse AnswerTokenize(const ServerContext& context, const RequestLimits& limits,
                            const ApiKey& key, std::string_view body);

// Token ids as a text.
HttpResponse AnswerDetokenize(const ServerContext& context, const RequestLimits& limits,
                              const ApiKey& key, std::string_view body);

}  // namespace graft
