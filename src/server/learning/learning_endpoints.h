// /v1/files and /v1/fine_tuning/jobs, and DELETE of a learned model: OpenAI's interface over
// LearningJobs. Takes its time where a file is long; any thread.
#pragma once

#include <optional>

#include "server/api_keys.h"
#include "server/http_message.h"
#include "server/routes.h"
#include "server/server_context.h"

namespace graft {

HttpResponse AnswerLearning(const ServerContext& context, const RouteMatch& match,
                            const HttpRequest& request, const ApiKey& key);

// Why a server has none of this, for a client.
ApiError NoLearning(const ServerContext& context);

}  // namespace graft
