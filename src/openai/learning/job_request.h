// The body of POST /v1/fine_tuning/jobs. Pure function; any thread.
#pragma once

#include "base/json_fwd.h"
#include "http/api_error.h"
#include "jobs/learning_jobs.h"

namespace graft {

// A job without id, tenant and times. `model` is checked by the caller.
struct JobRequest {
  std::string model;
  LearningJob job;
};
ApiResult<JobRequest> ParseJobRequest(const Json& body, const LearningSetup& setup);

}  // namespace graft
