// The bodies of POST /v1/completions and /v1/chat/completions as values. Every field that OpenAI
// and vLLM have is read, ignored (because it changes no output) or refused by name.
// ValidateSamplingParams checks the ranges of sampling values. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "http/api_error.h"
#include "openai/adapter_shares.h"
#include "openai/answer_format.h"
#include "openai/chat_messages.h"
#include "openai/generation_defaults.h"
#include "openai/tool_fields.h"
#include "request/adapter_catalog.h"
#include "request/request.h"

namespace graft {

// What one request may ask for at most.
struct RequestLimits {
  int64_t prompt_bytes_max = int64_t{4} << 20;  // one prompt's or all messages' text
  int32_t prompts_max = 128;
  int32_t inputs_max = 2048;  // of embeddings
  int32_t choices_max = 128;  // n, and prompts times n
  int32_t messages_max = 4096;
  int32_t stops_max = 16;
  int32_t stop_bytes_max = 1024;
  int32_t stop_token_ids_max = 256;
  int32_t bad_words_max = 256;
  int32_t allowed_token_ids_max = 1 << 18;
  int32_t logit_bias_max = 1024;
  int32_t tools_max = 1024;
  // Log-probabilities in one answer: choices times tokens times one more than the alternatives. One
  // takes about 90 bytes of a chat's answer.
  int64_t logprobs_max = 1 << 19;
};

// What both endpoints share.
struct GenerationParams {
  std::string model;
  std::vector<AdapterShare> adapters;  // that are added to the model, the base one; none: the model
  std::string cache_salt;
  std::optional<int32_t> draft_tokens_max;
  SamplingParams sampling;  // tokens_max and seed are filled from below once the prompt is known
  std::optional<int32_t> tokens_max;
  std::optional<int32_t> tokens_default;  // where that is absent: of the server's defaults
  std::optional<uint64_t> seed;
  int32_t n = 1;
  int32_t priority = 0;  // the smallest goes first
  // Set by the key, not the body: tokens of prompt and output at most; 0: the model's limit.
  int32_t context_tokens_max = 0;
  AnswerFormat answer;
  std::optional<int32_t> reasoning_tokens_max;
  std::vector<std::string> stop;
  std::vector<std::string> bad_words;  // their tokens go into `sampling` when the plan is made
  bool include_stop_text = false;
  bool skip_special_tokens = true;
  // The prompt's last so many tokens; -1: as many as leave room for the answer.
  std::optional<int32_t> prompt_tokens_max;
  bool keeps_first_tokens = false;         // in place of the last ones
  std::optional<bool> add_special_tokens;  // default: true for completions, false for chat
  bool logprobs = false;
  int32_t num_top_logprobs = 0;            // alternatives of these
  std::optional<int32_t> prompt_logprobs;  // asked for, with so many alternatives
  bool stream = false;
  bool include_usage = false;      // a last chunk with the usage
  bool continuous_usage = false;   // and in every chunk the usage so far
  bool shows_token_ids = false;    // where tokens are named, by their ids
  bool returns_token_ids = false;  // those of the prompt and of the answer
};

using Prompt = std::variant<std::string, std::vector<int32_t>>;

struct CompletionRequest {
  GenerationParams params;
  std::vector<Prompt> prompts;  // at least one
  bool echo = false;
};

struct ChatRequest {
  GenerationParams params;
  ChatMessages messages;
  ToolRequest tools;
  bool include_reasoning = true;
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the answer goes on with the last message's text
  OrderedJson template_kwargs = OrderedJson::object();
  // As templates get them; null where there are none.
  OrderedJson shown_tools;
  OrderedJson documents;
  std::string reasoning_effort;  // "": as the template likes
};

// Takes the fields that all endpoints have for text: the model, how tokens are drawn and where they
// stop.
void ReadSampling(FieldReader& reader, const RequestLimits& limits, GenerationParams* params);
// Refuses what could forbid the only token that goes on with the answer's form, which may be that
// of a call, and what would come after its end.
void CheckForm(FieldReader& reader, const GenerationParams& params, const ToolRequest& tools);
// Takes the field that says how many tokens there may be, `min` at least. -1 is what some clients
// send for all the room that there is.
void ReadTokensMax(FieldReader& reader, const char* name, int32_t min, GenerationParams* params);
// Takes "truncate_prompt_tokens" and "truncation_side".
void ReadTruncation(FieldReader& reader, GenerationParams* params);
// Takes a field that is a text or token ids, or a list of up to `prompts_max` of such.
void ReadPrompts(FieldReader& reader, const char* name, int32_t prompts_max,
                 const RequestLimits& limits, std::vector<Prompt>* prompts);
// Takes "chat_template_kwargs".
void ReadTemplateKwargs(FieldReader& reader, ChatRequest* request);

// Takes the fields that make a chat's prompt: "messages", "tools", and what templates are told.
void ReadConversation(FieldReader& reader, const RequestLimits& limits, ChatRequest* request);
// Puts tools, documents and template values into the order that their keys have in `body`, which is
// what the request was read from: templates show it.
void UseOrderOf(std::string_view body, ChatRequest* request);

// `defaults` is what a body gets that says nothing else.
ApiResult<CompletionRequest> ParseCompletionRequest(const Json& body, const RequestLimits& limits,
                                                    const GenerationDefaults& defaults = {});
ApiResult<ChatRequest> ParseChatRequest(const Json& body, const RequestLimits& limits,
                                        const GenerationDefaults& defaults = {});
// All but the tenant, which the key tells.
ApiResult<AdapterLoad> ParseLoadAdapterRequest(const Json& body);
// The adapter's name.
ApiResult<std::string> ParseUnloadAdapterRequest(const Json& body);

}  // namespace graft
