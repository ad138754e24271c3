// From a request's body to the engine's requests and the way the answer is written: parsing, model
// lookup, chat template, tokenising, limits. The expensive part of a request before the engine;
// runs on any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "request/request.h"
#include "server/answer_writer.h"
#include "server/api_error.h"
#include "server/api_keys.h"
#include "server/choice.h"
#include "server/embedding_request.h"
#include "server/openai_request.h"
#include "server/openai_response.h"
#include "server/server_context.h"
#include "server/work_limits.h"

namespace graft {

struct GenerationPlan {
  ResponseHead head;
  bool stream = false;
  int32_t n = 1;                              // choices per prompt
  std::optional<EmbeddingFormat> embeddings;  // of /v1/embeddings; none for the others
  // Makes what writes the answer, where that has a form of its own; called once. Empty: as
  // completions and chats have it.
  std::function<std::unique_ptr<AnswerWriter>(const ServerContext& context, ResponseHead head)>
      make_writer;
  // One per choice, prompt by prompt. Ids and arrival times are the submitter's to fill.
  std::vector<Request> requests;
  std::vector<ChoiceOptions> choices;
  Work work;  // of all of them
};

// `body` is the bytes of POST /v1/completions, or of /v1/chat/completions if `is_chat`.
ApiResult<GenerationPlan> PlanGeneration(const ServerContext& context, const RequestLimits& limits,
                                         const ApiKey& key, bool is_chat, std::string_view body);

// The same of POST /v1/embeddings: a request for each input.
ApiResult<GenerationPlan> PlanEmbeddings(const ServerContext& context, const RequestLimits& limits,
                                         const ApiKey& key, Pooling pooling, std::string_view body);

// The same of a chat that was read already.
ApiResult<GenerationPlan> PlanChat(const ServerContext& context, const RequestLimits& limits,
                                   const ApiKey& key, ChatRequest request);

// Whether FindModel would find it, or would have before it was unloaded.
bool MayUseModel(const ServerContext& context, const ApiKey& key, const std::string& name);

// The content hash behind a model's name ("" for the base model), or 404 with the nearest names. A
// model that the key may not use does not exist for it. Takes a bounded time, however many models
// there are.
ApiResult<AdapterInfo> FindModel(const ServerContext& context, const ApiKey& key,
                                 const std::string& name);

}  // namespace graft
