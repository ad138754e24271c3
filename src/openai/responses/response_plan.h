// From the body of POST /v1/responses to the engine's request: the stored conversation, what is
// new, and then as for a chat. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "openai/generation_plan.h"
#include "openai/responses/response_store.h"

namespace graft {

// The answer is put into `store`, which outlives it, unless the request says otherwise.
ApiResult<GenerationPlan> PlanResponse(const ApiContext& context, const RequestLimits& limits,
                                       const ApiKey& key, ResponseStore* store,
                                       std::string_view body);

// The bytes of the stored conversation that `body` goes on with, which planning it reads, too; 0 of
// one that begins, or is refused.
int64_t StoredBytes(ResponseStore* store, const std::string& tenant, const RequestLimits& limits,
                    std::string_view body);

}  // namespace graft
