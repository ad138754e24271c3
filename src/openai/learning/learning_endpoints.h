// /v1/files and /v1/fine_tuning/jobs, and DELETE of a learned model: OpenAI's interface over
// LearningJobs. Takes its time where a file is long; any thread.
#pragma once

#include <optional>

#include "http/http_message.h"
#include "keys/api_keys.h"
#include "openai/api_context.h"
#include "openai/routes.h"

namespace graft {

HttpResponse AnswerLearning(const ApiContext& context, const RouteMatch& match,
                            const HttpRequest& request, const ApiKey& key);

// Why a server has none of this, for a client.
ApiError NoLearning(const ApiContext& context);

}  // namespace graft
