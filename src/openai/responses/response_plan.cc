#include "openai/responses/response_plan.h"

#include <memory>
#include <utility>

#include "base/random.h"
#include "http/field_reader.h"
#include "openai/inner_json.h"
#include "openai/responses/conversation.h"
#include "openai/responses/responses_request.h"
#include "openai/responses/responses_writer.h"

namespace graft {
namespace {

// The messages of the whole conversation: those of earlier turns, and the request's own.
std::optional<ApiError> FillMessages(const RequestLimits& limits, const std::string& tenant,
                                     ResponseStore* store, ResponsesRequest* request) {
  ConversationReader reader(&request->chat.messages);
  if (!request->instructions.empty()) reader.AddInstructions(request->instructions);
  const auto items_max = static_cast<size_t>(limits.messages_max);
  ASSIGN_OR_RETURN_ERROR(const auto turns,
                         store->Conversation(tenant, request->previous_response_id, items_max));
  size_t num_items = request->input.size();
  for (const ResponseStore::Entry& turn : turns) {
    for (const std::string* list : {&turn->input, &turn->output}) {
      const Result<Json> items = ParseInnerJson(*list);
      if (!items.ok()) {
        return InvalidRequestError("previous_response_id",
                                   "the conversation is too large: " + items.status().message());
      }
      num_items += items->size();
      for (const Json& item : *items) {
        if (auto error = reader.Add(item, "input.")) return error;
      }
    }
    if (num_items <= items_max) continue;
    return InvalidRequestError("previous_response_id", "the conversation has more than " +
                                                           std::to_string(items_max) + " items");
  }
  for (size_t i = 0; i < request->input.size(); ++i) {
    const std::string path = "input[" + std::to_string(i) + "].";
    if (auto error = reader.Add(request->input[i], path)) return error;
  }
  return CheckTextBytes(request->chat.messages, limits);
}

}  // namespace

ApiResult<GenerationPlan> PlanResponse(const ApiContext& context, const RequestLimits& limits,
                                       const ApiKey& key, ResponseStore* store,
                                       std::string_view body) {
  ASSIGN_OR_RETURN_ERROR(const Json json, ParseBody(body));
  ASSIGN_OR_RETURN_ERROR(ResponsesRequest request,
                         ParseResponsesRequest(json, body, limits, context.defaults));
  if (request.store.value_or(false) && !store->enabled()) {
    return InvalidRequestError("store",
                               "'store' is off on this server (--responses-stored-max 0); send "
                               "\"store\": false and the whole conversation as 'input'");
  }
  const std::string tenant = key.rights().tenant;
  if (auto error = FillMessages(limits, tenant, store, &request)) return *error;
  const bool is_stored = request.store.value_or(true) && store->enabled();
  ResponseTurn turn;
  turn.repeated = RepeatedFields(request, is_stored);
  turn.input = DumpJson(request.input);
  turn.previous_id = request.previous_response_id;
  turn.tenant = tenant;
  turn.store = is_stored ? store : nullptr;
  ASSIGN_OR_RETURN_ERROR(GenerationPlan plan,
                         PlanChat(context, limits, key, std::move(request.chat)));
  plan.head.id = RandomName("resp_");
  plan.make_writer = [turn = std::move(turn)](const ApiContext& from, ResponseHead head) mutable {
    return std::make_unique<ResponsesWriter>(from, std::move(head), std::move(turn));
  };
  return plan;
}

int64_t StoredBytes(ResponseStore* store, const std::string& tenant, const RequestLimits& limits,
                    std::string_view body) {
  ApiResult<Json> json = ParseBody(body);
  if (!json.ok() || !json->is_object()) return 0;
  const auto id = json->find("previous_response_id");
  if (id == json->end() || !id->is_string()) return 0;
  const auto turns_max = static_cast<size_t>(limits.messages_max);
  auto turns = store->Conversation(tenant, id->get_ref<const std::string&>(), turns_max);
  if (!turns.ok()) return 0;
  int64_t bytes = 0;
  for (const ResponseStore::Entry& turn : *turns) {
    bytes += static_cast<int64_t>(turn->input.size() + turn->output.size());
  }
  return bytes;
}

}  // namespace graft
