// GET and DELETE of /v1/responses/{id}, and GET of its input_items. Takes its time where the
// conversation is long; any thread.
#pragma once

#include "http/http_message.h"
#include "keys/api_keys.h"
#include "openai/api_context.h"
#include "openai/responses/response_store.h"
#include "openai/routes.h"

namespace graft {

HttpResponse AnswerStored(const ApiContext& context, ResponseStore& store, const RouteMatch& match,
                          const HttpRequest& request, const ApiKey& key);

}  // namespace graft
