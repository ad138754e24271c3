// GenerationPlan: from a request's body to the engine's requests and the form of the answer:
// parsing, model lookup, chat template, tokenising, limits. This is the expensive part of a request
// before the engine. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/api_error.h"
#include "keys/api_keys.h"
#include "keys/work_limits.h"
#include "openai/answer_writer.h"
#include "openai/api_context.h"
#include "openai/choice.h"
#include "openai/embedding_request.h"
#include "openai/openai_request.h"
#include "openai/openai_response.h"
#include "request/request.h"

namespace graft {

struct GenerationPlan {
  ResponseHead head;
  bool stream = false;
  int32_t n = 1;                              // choices per prompt
  std::optional<EmbeddingFormat> embeddings;  // of /v1/embeddings; none for the others
  // Makes what writes the answer, where that has a form of its own; called once. Empty: as
  // completions and chats have it.
  std::function<std::unique_ptr<AnswerWriter>(const ApiContext& context, ResponseHead head)>
      make_writer;
  // One per choice, prompt by prompt. Ids and arrival times are the submitter's to fill.
  std::vector<Request> requests;
  std::vector<ChoiceOptions> choices;
  Work work;  // of all of them
};

// `body` is the bytes of POST /v1/completions, or of /v1/chat/completions if `is_chat`.
ApiResult<GenerationPlan> PlanGeneration(const ApiContext& context, const RequestLimits& limits,
                                         const ApiKey& key, bool is_chat, std::string_view body);

// The same of POST /v1/embeddings: a request for each input.
ApiResult<GenerationPlan> PlanEmbeddings(const ApiContext& context, const RequestLimits& limits,
                                         const ApiKey& key, Pooling pooling, std::string_view body);

// The same of a chat that was read already.
ApiResult<GenerationPlan> PlanChat(const ApiContext& context, const RequestLimits& limits,
                                   const ApiKey& key, ChatRequest request);

// Whether the key may use an adapter that is listed: by its rights, and by those that a source
// gives its tenant.
bool MayUseListed(const ApiContext& context, const ApiKey& key, const AdapterInfo& adapter);

// Whether FindModel would find it, or would have before it was unloaded.
bool MayUseModel(const ApiContext& context, const ApiKey& key, const std::string& name);

// Returns the adapter behind a model's name (content hash "" for the base model), or a 404 error
// with the nearest names, and `model_to_fetch` where a source may have it. A model that the key may
// not use counts as unknown. Takes a bounded time,
// however many models there are.
ApiResult<AdapterInfo> FindModel(const ApiContext& context, const ApiKey& key,
                                 const std::string& name);

// The same for a request that is to be answered by it, which counts as a use.
ApiResult<AdapterInfo> UseModel(const ApiContext& context, const ApiKey& key,
                                const std::string& name);

}  // namespace graft
