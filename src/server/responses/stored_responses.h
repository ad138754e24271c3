// GET and DELETE of /v1/responses/{id}, and GET of its input_items. Takes its time where the
// conversation is long; any thread.
#pragma once

#include "server/api_keys.h"
#include "server/http_message.h"
#include "server/responses/response_store.h"
#include "server/routes.h"
#include "server/server_context.h"

namespace graft {

HttpResponse AnswerStored(const ServerContext& context, ResponseStore& store,
                          const RouteMatch& match, const HttpRequest& request, const ApiKey& key);

}  // namespace graft
