// The body of POST /v1/responses as values: a chat without its messages, and what the answer
// repeats. Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "openai/openai_request.h"

namespace graft {

struct ResponsesRequest {
  ChatRequest chat;            // without messages: the conversation tells them
  Json input = Json::array();  // whole items
  std::string instructions;    // "": none
  std::string previous_response_id;
  std::optional<bool> store;
  Json metadata = Json::object();
  // As the client gave them, for the answer.
  OrderedJson tools = OrderedJson::array();
  Json tool_choice = "auto";
  Json text_format = {{"type", "text"}};
};

// `body` is what `json` was parsed from: templates show keys in the client's order.
ApiResult<ResponsesRequest> ParseResponsesRequest(const Json& json, std::string_view body,
                                                  const RequestLimits& limits,
                                                  const GenerationDefaults& defaults = {});

// The fields of a response that repeat the request, as text inside an object: "\"a\":1,\"b\":2".
std::string RepeatedFields(const ResponsesRequest& request, bool is_stored);

}  // namespace graft
