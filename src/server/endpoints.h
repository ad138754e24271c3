// The endpoints that answer at once, and the checks before any of them. Any thread.
#pragma once

#include <string>

#include "http/http_message.h"
#include "openai/routes.h"
#include "server/server_state.h"

namespace graft {

// Whether a request of this head may go on, before its body is read: known route, right method,
// key, rights, media type. On success `*key` is the key of the request.
std::optional<ApiError> CheckHead(const ServerState& state, const RouteMatch& match,
                                  const HttpRequest& request, std::shared_ptr<ApiKey>* key);

// OPTIONS of any route.
HttpResponse OptionsResponse(const ServerState& state, const RouteMatch& match,
                             const HttpRequest& request);

// /health, /ready, /ping, /version, /load, /metrics, /scale, /v1/models, /dashboard and its files.
HttpResponse AnswerGet(const ServerState& state, const RouteMatch& match, const ApiKey& key);

}  // namespace graft
