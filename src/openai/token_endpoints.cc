#include "openai/token_endpoints.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "http/field_reader.h"
#include "openai/api_fields.h"
#include "openai/chat_prompt.h"
#include "openai/generation_plan.h"

namespace graft {
namespace {

struct TokenizeRequest {
  std::string model;  // "": the base model
  std::optional<std::string> prompt;
  ChatRequest chat;  // where there is no prompt
  std::optional<bool> add_special_tokens;
  bool with_texts = false;
};

ApiResult<TokenizeRequest> ParseTokenizeRequest(const Json& body, const RequestLimits& limits) {
  TokenizeRequest request;
  const bool has_text = body.is_object() && body.contains("prompt") && !body["prompt"].is_null();
  const bool is_chat = body.is_object() && body.contains("messages") && !has_text;
  FieldReader reader(body, "", is_chat ? &TokenizeChatFields() : &TokenizeTextFields());
  reader.String("model", &request.model, kNameBytesMax);
  if (is_chat) {
    ReadConversation(reader, limits, &request.chat);
  } else if (const Json* prompt = reader.Take("prompt")) {
    if (!prompt->is_string()) {
      reader.Fail("prompt", std::string("must be a string, got ") + JsonTypeName(*prompt));
    } else {
      request.prompt = prompt->get<std::string>();
      if (static_cast<int64_t>(request.prompt->size()) > limits.prompt_bytes_max) {
        reader.Fail("prompt",
                    "is longer than " + std::to_string(limits.prompt_bytes_max) + " bytes");
      }
    }
  } else {
    reader.Fail("prompt", "or 'messages' is required");
  }
  reader.OptionalBool("add_special_tokens", &request.add_special_tokens);
  reader.Bool("return_token_strs", &request.with_texts);
  reader.TakeUnread();
  if (auto error = reader.Finish()) return *error;
  return request;
}

ApiResult<AdapterInfo> ModelOf(const ApiContext& context, const ApiKey& key,
                               const std::string& model) {
  return UseModel(context, key, model.empty() ? context.base_model : model);
}

ApiResult<std::vector<int32_t>> Tokenize(const ApiContext& context, const AdapterInfo& model,
                                         std::string_view body, TokenizeRequest* request) {
  RenderedChat text;
  const bool is_chat = !request->prompt.has_value();
  if (is_chat) {
    UseOrderOf(body, &request->chat);
    ASSIGN_OR_RETURN_ERROR(text,
                           RenderChat(context, ChatTextOf(context, model.text), &request->chat));
  } else {
    text.text = std::move(*request->prompt);
  }
  Result<std::vector<int32_t>> tokens = context.tokenizer.Encode(
      text.text, request->add_special_tokens.value_or(!is_chat), text.untrusted);
  if (!tokens.ok()) {
    return InvalidRequestError(is_chat ? "messages" : "prompt", tokens.status().message());
  }
  return std::move(*tokens);
}

}  // namespace

HttpResponse AnswerTokenize(const ApiContext& context, const RequestLimits& limits,
                            const ApiKey& key, std::string_view body) {
  ASSIGN_OR_RESPOND(const Json json, ParseBody(body));
  ASSIGN_OR_RESPOND(TokenizeRequest request, ParseTokenizeRequest(json, limits));
  ASSIGN_OR_RESPOND(const AdapterInfo model, ModelOf(context, key, request.model));
  ASSIGN_OR_RESPOND(const std::vector<int32_t> tokens, Tokenize(context, model, body, &request));
  Json answer = {{"count", tokens.size()},
                 {"max_model_len", context.generator.limits().context_tokens_max},
                 {"tokens", tokens},
                 {"token_strs", nullptr}};
  if (request.with_texts) {
    Json texts = Json::array();
    for (const int32_t token : tokens) texts.push_back(context.tokenizer.TokenText(token));
    answer["token_strs"] = std::move(texts);
  }
  return JsonResponse(answer);
}

HttpResponse AnswerDetokenize(const ApiContext& context, const RequestLimits& limits,
                              const ApiKey& key, std::string_view body) {
  ASSIGN_OR_RESPOND(const Json json, ParseBody(body));
  std::string model;
  std::vector<int32_t> tokens;
  FieldReader reader(json, "", &DetokenizeFields());
  reader.String("model", &model, kNameBytesMax);
  if (reader.Take("tokens") == nullptr) reader.Fail("tokens", "is required");
  reader.IntList("tokens", static_cast<size_t>(limits.prompt_bytes_max), &tokens);
  if (auto error = reader.Finish()) return ErrorResponse(*error);
  ASSIGN_OR_RESPOND(const AdapterInfo found, ModelOf(context, key, model));
  const int32_t vocab_size = context.tokenizer.vocab_size();
  for (const int32_t token : tokens) {
    if (token < vocab_size) continue;
    return ErrorResponse(InvalidRequestError(
        "tokens", "'tokens' holds id " + std::to_string(token) + ", the vocabulary ends at " +
                      std::to_string(vocab_size - 1)));
  }
  return JsonResponse({{"prompt", context.tokenizer.Decode(tokens, /*skip_special=*/false)}});
}

}  // namespace graft
