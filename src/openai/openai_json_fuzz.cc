// Any bytes as request bodies and as a token's text. Parsing never crashes, accepted requests are
// within their limits, and what is formatted is valid JSON.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "http/http_parser.h"
#include "keys/api_keys.h"
#include "openai/openai_request.h"
#include "openai/openai_response.h"
#include "openai/responses/conversation.h"
#include "openai/responses/responses_request.h"
#include "openai/token_logprobs.h"
#include "text/utf8.h"

namespace graft {
namespace {

void CheckParams(const GenerationParams& params, const RequestLimits& limits) {
  CHECK(!params.model.empty());
  CHECK_GE(params.n, 1);
  CHECK_LE(params.n, limits.choices_max);
  CHECK_LE(params.stop.size(), static_cast<size_t>(limits.stops_max));
  for (const std::string& stop : params.stop) CHECK(!stop.empty());
  CHECK_GE(params.sampling.num_logprobs, -1);
  CHECK_LE(params.sampling.num_logprobs, 20);
}

void CheckError(const ApiError& error) {
  CHECK(error.http_status >= 400 && error.http_status < 600);
  CHECK(!error.message.empty());
  CHECK(ParseJson(DumpJson(error.ToJson())).ok());
}

void FuzzConversation(const RequestLimits& limits, ResponsesRequest* request) {
  CHECK(!request->input.empty() && request->input.size() <= 4);
  ConversationReader reader(&request->chat.messages);
  for (const Json& item : request->input) {
    if (auto error = reader.Add(item, "input.")) return CheckError(*error);
  }
  if (auto error = CheckTextBytes(request->chat.messages, limits)) CheckError(*error);
}

void FuzzRequests(std::string_view bytes) {
  const Result<Json> json = ParseJson(bytes);
  if (!json.ok()) return;
  (void)FindDuplicateKey(bytes);
  CHECK(!FindDuplicateKey(DumpJson(json.value())).has_value()) << "a tree has every key once";
  const RequestLimits limits{.prompt_bytes_max = 100,
                             .prompts_max = 4,
                             .choices_max = 8,
                             .messages_max = 4,
                             .stops_max = 2,
                             .stop_bytes_max = 8};
  auto completion = ParseCompletionRequest(json.value(), limits);
  if (completion.ok()) {
    CheckParams(completion->params, limits);
    CHECK(!completion->prompts.empty());
    CHECK_LE(completion->prompts.size() * static_cast<size_t>(completion->params.n), size_t{8});
  } else {
    CheckError(completion.error());
  }
  auto chat = ParseChatRequest(json.value(), limits);
  if (chat.ok()) {
    CheckParams(chat->params, limits);
    CHECK(!chat->messages.list.empty());
  } else {
    CheckError(chat.error());
  }
  auto response = ParseResponsesRequest(json.value(), bytes, limits);
  if (response.ok()) {
    CheckParams(response->chat.params, limits);
    CHECK(ParseJson("{" + RepeatedFields(*response, true) + "}").ok());
    FuzzConversation(limits, &*response);
  } else {
    CheckError(response.error());
  }
  if (auto load = ParseLoadAdapterRequest(json.value()); !load.ok()) CheckError(load.error());
  if (auto name = ParseUnloadAdapterRequest(json.value()); !name.ok()) CheckError(name.error());
  ManualClock clock;
  ApiKeys keys(clock);
  if (keys.Load(json.value()).ok()) CHECK(keys.required());
}

// A text of any bytes must come back unchanged, or with replacement characters where it is not
// UTF-8.
void FuzzStrings(std::string_view bytes) {
  const std::string text = JsonString(bytes);
  const Result<Json> json = ParseJson(text);
  CHECK(json.ok()) << text;
  if (IsValidUtf8(bytes)) CHECK(json.value() == std::string(bytes));
  CHECK(IsValidUtf8(CompletionTokenText(std::string(bytes))));
}

void FuzzHttp(std::string_view bytes) {
  HttpParser parser({.head_bytes_max = 1024, .body_bytes_max = 256});
  std::string input;
  // In two pieces, cut at a place that the first byte decides.
  const size_t cut = bytes.empty() ? 0 : static_cast<unsigned char>(bytes[0]) % bytes.size();
  for (const std::string_view piece : {bytes.substr(0, cut), bytes.substr(cut)}) {
    input.append(piece);
    for (int stage = 0; stage < 2 && !parser.done(); ++stage) parser.Feed(&input);
  }
  if (parser.done()) CHECK_LE(parser.request().body.size(), size_t{256});
  if (parser.error().has_value()) CheckError(*parser.error());
}

}  // namespace
}  // namespace graft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  graft::FuzzRequests(bytes);
  graft::FuzzStrings(bytes);
  graft::FuzzHttp(bytes);
  return 0;
}
