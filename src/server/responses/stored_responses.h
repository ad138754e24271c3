// GET and DELETE of /v1/responses/{id}, and GET of its input_items. Takes its time where the
// conversation is long; any thread.
#pragma once

#include "server/http_message.h"
#include "server/routes.h"
#include "server/server_state.h"

namespace graft {

HttpResponse AnswerStored(ServerState& state, const RouteMatch& match, const HttpRequest& request,
                          const ApiKey& key);

}  // namespace graft
