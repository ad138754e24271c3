#include "openai/generation_plan.h"

#include <algorithm>
#include <utility>

#include "base/nearest_names.h"
#include "base/random.h"
#include "grammar/grammar_text.h"
#include "http/field_reader.h"
#include "openai/chat_grammar.h"
#include "openai/chat_prompt.h"
#include "openai/embedding_request.h"

namespace graft {
namespace {

using TokenIds = std::vector<int32_t>;

constexpr int32_t kCompletionTokensDefault = 16;  // OpenAI's

// The context limit, and what sets it: the model or the key.
struct ContextLimit {
  int64_t tokens_max = 0;
  const char* whose = "model";
};

ContextLimit ContextOf(const ApiContext& context, const GenerationParams& params) {
  const int64_t of_model = context.generator.limits().context_tokens_max;
  const int64_t of_key = params.context_tokens_max;
  if (of_key > 0 && of_key < of_model) return {of_key, "key"};
  return {of_model, "model"};
}

ApiError ContextLengthError(const std::string& param, const ContextLimit& context,
                            int64_t prompt_tokens, int64_t output_tokens) {
  ApiError error = InvalidRequestError(
      param, std::string("This ") + context.whose + "'s maximum context length is " +
                 std::to_string(context.tokens_max) + " tokens. However, you requested " +
                 std::to_string(prompt_tokens + output_tokens) + " tokens (" +
                 std::to_string(prompt_tokens) + " in the prompt, " +
                 std::to_string(output_tokens) + " in the completion).");
  error.code = "context_length_exceeded";
  return error;
}

// How many tokens this prompt may be answered with, by what was asked for and what fits.
ApiResult<int32_t> OutputTokensMax(const std::string& param, const GenerationParams& params,
                                   bool is_chat, int64_t prompt_tokens,
                                   const ContextLimit& context) {
  const int64_t room = context.tokens_max - prompt_tokens;
  if (params.tokens_max.has_value()) {
    if (*params.tokens_max <= room) return *params.tokens_max;
    return ContextLengthError(param, context, prompt_tokens, *params.tokens_max);
  }
  if (room < 1) return ContextLengthError(param, context, prompt_tokens, 1);
  const int64_t wish =
      params.tokens_default.value_or(is_chat ? kInt32Max : kCompletionTokensDefault);
  return static_cast<int32_t>(std::min(room, wish));
}

// Log-probabilities fill memory until they are written. Where the request does not say how many
// tokens it wants, fewer than the context holds will do.
std::optional<ApiError> BoundLogprobs(const GenerationParams& params, int64_t logprobs_max,
                                      GenerationPlan* plan) {
  if (!params.logprobs && !params.prompt_logprobs.has_value()) return std::nullopt;
  const int64_t per_token = 1 + std::max(params.sampling.num_logprobs, 0);
  int64_t of_prompts = 0;
  int64_t of_outputs = 0;
  for (const Request& request : plan->requests) {
    const bool counts_prompt = request.sampling.prompt_logprobs;
    of_prompts += counts_prompt ? static_cast<int64_t>(request.prompt_tokens.size()) : 0;
    of_outputs += params.logprobs ? request.sampling.tokens_max : 0;
  }
  of_prompts *= per_token;
  of_outputs *= per_token;
  if (of_prompts + of_outputs <= logprobs_max) return std::nullopt;
  const auto num_choices = static_cast<int64_t>(plan->requests.size());
  const int64_t room = (logprobs_max - of_prompts) / (num_choices * per_token);
  if (params.logprobs && !params.tokens_max.has_value() && room > params.sampling.tokens_min &&
      room > 0) {
    for (Request& request : plan->requests) {
      request.sampling.tokens_max =
          static_cast<int32_t>(std::min<int64_t>(request.sampling.tokens_max, room));
    }
    return std::nullopt;
  }
  const std::string asked = std::to_string(of_prompts + of_outputs);
  const std::string field = params.logprobs ? "logprobs" : "prompt_logprobs";
  return InvalidRequestError(
      field, "'" + field + "' asks for " + asked + " log-probabilities (choices x tokens x " +
                 std::to_string(per_token) + "), one answer has at most " +
                 std::to_string(logprobs_max) +
                 "; lower n, max_tokens or the number of alternatives, or send several "
                 "requests");
}

std::optional<ApiError> CheckSampling(const SamplingParams& sampling, int32_t vocab_size) {
  const Status status = ValidateSamplingParams(sampling, vocab_size);
  if (status.ok()) return std::nullopt;
  // The message opens with the field's name.
  const std::string& message = status.message();
  return InvalidRequestError(message.substr(0, message.find(' ')), message);
}

// A text that cannot fit, whatever its tokens are, costs no time of tokenising it.
std::optional<ApiError> CheckPromptBytes(const ApiContext& context, const std::string& param,
                                         const GenerationParams& params, const std::string& text) {
  const ContextLimit limit = ContextOf(context, params);
  const int64_t tokens_min = context.tokenizer.TextTokensMin(text);
  if (tokens_min <= limit.tokens_max) return std::nullopt;
  ApiError error = InvalidRequestError(
      param, std::string("This ") + limit.whose + "'s maximum context length is " +
                 std::to_string(limit.tokens_max) + " tokens. However, a prompt of " +
                 std::to_string(text.size()) + " bytes has at least " + std::to_string(tokens_min) +
                 " tokens.");
  error.code = "context_length_exceeded";
  return error;
}

// Leaves the last tokens of the prompt, or the first ones, where the client wants no more. Whether
// some are gone.
bool Truncate(const ApiContext& context, const GenerationParams& params, TokenIds* tokens) {
  if (!params.prompt_tokens_max.has_value()) return false;
  int64_t tokens_max = *params.prompt_tokens_max;
  if (tokens_max < 0) {
    const int64_t output = std::max(params.tokens_max.value_or(1), 1);
    tokens_max = std::max<int64_t>(ContextOf(context, params).tokens_max - output, 1);
  }
  const auto num_tokens = static_cast<int64_t>(tokens->size());
  if (num_tokens <= tokens_max) return false;
  const auto begin = tokens->begin() + (params.keeps_first_tokens ? tokens_max : 0);
  tokens->erase(begin, begin + (num_tokens - tokens_max));
  return true;
}

ApiResult<TokenIds> EncodePrompt(const ApiContext& context, const std::string& param,
                                 const GenerationParams& params, const std::string& text,
                                 bool add_special_tokens, const TextRanges& untrusted = {}) {
  if (!params.prompt_tokens_max.has_value()) {
    if (auto error = CheckPromptBytes(context, param, params, text)) return *error;
  }
  Result<TokenIds> tokens = context.tokenizer.Encode(text, add_special_tokens, untrusted);
  if (!tokens.ok()) return InvalidRequestError(param, tokens.status().message());
  if (tokens->empty()) return InvalidRequestError(param, "'" + param + "' must not be empty");
  return std::move(*tokens);
}

// Adds the n requests of one prompt.
std::optional<ApiError> AddPrompt(const ApiContext& context, const GenerationParams& params,
                                  const std::string& param, TokenIds tokens, ChoiceOptions choice,
                                  Request request, GenerationPlan* plan) {
  const GeneratorLimits limits = context.generator.limits();
  ASSIGN_OR_RETURN_ERROR(
      const int32_t tokens_max,
      OutputTokensMax(param, params, plan->head.is_chat, static_cast<int64_t>(tokens.size()),
                      ContextOf(context, params)));
  for (const int32_t token : tokens) {
    if (token >= 0 && token < limits.vocab_size) continue;
    return InvalidRequestError(param, "'" + param + "' holds token id " + std::to_string(token) +
                                          ", the vocabulary ends at " +
                                          std::to_string(limits.vocab_size - 1));
  }
  request.sampling = params.sampling;
  request.sampling.tokens_max = tokens_max;
  if (auto error = CheckSampling(request.sampling, limits.vocab_size)) return error;
  request.prompt_tokens = std::move(tokens);
  const uint64_t seed = params.seed.has_value() ? *params.seed : RandomSeed();
  const auto num_requests = static_cast<int64_t>(plan->requests.size()) + params.n;
  if (num_requests > limits.requests_max) {
    return InvalidRequestError("n", "more than " + std::to_string(limits.requests_max) +
                                        " choices at once, which is all that this server has in "
                                        "flight; lower n or send fewer prompts");
  }
  const int64_t prompt_tokens = params.n * static_cast<int64_t>(request.prompt_tokens.size());
  plan->work.num_sequences += params.n;
  plan->work.prompt_tokens += prompt_tokens;
  plan->work.tokens += prompt_tokens + int64_t{params.n} * params.tokens_max.value_or(0);
  for (int32_t i = 0; i < params.n; ++i) {
    // The first choice gets the client's own seed, so that n does not change it.
    request.sampling.seed = i == 0 ? seed : RandomBits(seed, static_cast<uint64_t>(i));
    // A chat has them once for all choices.
    if (i > 0 && plan->head.is_chat) request.sampling.prompt_logprobs = false;
    plan->requests.push_back(request);
    plan->choices.push_back(choice);
  }
  return std::nullopt;
}

// A word's tokens where it begins a text, and behind a space if those are others, as in vLLM.
std::optional<ApiError> AddBadWords(const ApiContext& context,
                                    const std::vector<std::string>& words,
                                    SamplingParams* sampling) {
  for (const std::string& word : words) {
    const std::string bare = word.substr(std::min(word.find_first_not_of(' '), word.size()));
    TokenIds first;
    for (const std::string& text : {bare, " " + bare}) {
      Result<TokenIds> tokens = context.tokenizer.Encode(text, /*add_special_tokens=*/false);
      if (!tokens.ok()) return InvalidRequestError("bad_words", tokens.status().message());
      const bool is_new = first.empty() || (!tokens->empty() && tokens->front() != first.front() &&
                                            tokens->size() == first.size());
      if (tokens->empty() || !is_new) continue;
      if (first.empty()) first = *tokens;
      sampling->bad_words.push_back(std::move(*tokens));
    }
  }
  return std::nullopt;
}

// The model, or the weighted sum of adapters that is asked for in its place.
std::optional<ApiError> UseModels(const ApiContext& context, const ApiKey& key,
                                  GenerationParams* asked, Request* request, AskedTexts* texts) {
  const GenerationParams& params = *asked;
  ASSIGN_OR_RETURN_ERROR(const AdapterInfo model, UseModel(context, key, params.model));
  request->UseAdapter(model.key());
  texts->Add(model.text, &asked->sampling);
  if (!params.adapters.empty() && !request->adapters.empty()) {
    return InvalidRequestError("adapters", "'adapters' are added to the base model: name '" +
                                               context.base_model + "' in 'model', and '" +
                                               params.model + "' among the adapters.");
  }
  for (size_t i = 0; i < params.adapters.size(); ++i) {
    const AdapterShare& share = params.adapters[i];
    const std::string param = "adapters[" + std::to_string(i) + "].name";
    ApiResult<AdapterInfo> adapter = UseModel(context, key, share.name);
    if (!adapter.ok()) {
      ApiError error = adapter.error();
      error.param = param;
      return error;
    }
    if (adapter->key().empty()) {
      return InvalidRequestError(
          param, "'" + share.name + "' is the base model, which is there anyway; leave it out.");
    }
    if (share.weight == 0.0f) continue;
    request->adapters.push_back({adapter->key(), share.weight});
    texts->Add(adapter->text, &asked->sampling);
  }
  return std::nullopt;
}

ApiResult<GenerationPlan> StartPlan(const ApiContext& context, const ApiKey& key, bool is_chat,
                                    GenerationParams& params, Request* request,
                                    ChoiceOptions* choice, AskedTexts* texts) {
  if (auto error = UseModels(context, key, &params, request, texts)) return *error;
  if (auto error = AddBadWords(context, params.bad_words, &params.sampling)) return *error;
  params.context_tokens_max = key.context_tokens_max();
  if (key.n_max() > 0 && params.n > key.n_max()) {
    return InvalidRequestError("n", "This key may ask for " + std::to_string(key.n_max()) +
                                        " choices of a prompt at most; lower n.");
  }
  request->tenant = key.rights().tenant;
  request->tenant_weight = key.rights().tenant_weight;
  request->priority = -params.priority;
  request->cache_salt = params.cache_salt;
  request->draft_tokens_max = params.draft_tokens_max.value_or(request->draft_tokens_max);
  if (!params.stop.empty()) {
    choice->stop = std::make_shared<const StopStrings>(params.stop, context.tokenizer);
  }
  choice->tokens_min = params.sampling.tokens_min;
  choice->include_stop_text = params.include_stop_text;
  choice->skip_special_tokens = params.skip_special_tokens;
  choice->logprobs = params.logprobs;
  choice->num_top_logprobs = params.num_top_logprobs;
  choice->prompt_logprobs = params.prompt_logprobs;
  choice->returns_token_ids = params.returns_token_ids;
  GenerationPlan plan;
  plan.head = {.is_chat = is_chat,
               .logprobs = params.logprobs,
               .prompt_logprobs = params.prompt_logprobs.has_value(),
               .include_usage = params.include_usage,
               .continuous_usage = params.continuous_usage,
               .shows_token_ids = params.shows_token_ids,
               .returns_token_ids = params.returns_token_ids,
               .id = RandomName(is_chat ? "chatcmpl-" : "cmpl-"),
               .model = params.model,
               .created = UnixTimeSeconds()};
  plan.stream = params.stream;
  plan.n = params.n;
  return plan;
}

// The requests of these prompts, of the field `name`.
std::optional<ApiError> AddPrompts(const ApiContext& context, const GenerationParams& params,
                                   const std::string& name, std::vector<Prompt>* prompts,
                                   bool echoes, ChoiceOptions choice, const Request& request,
                                   GenerationPlan* plan) {
  for (size_t i = 0; i < prompts->size(); ++i) {
    const std::string param = prompts->size() == 1 ? name : name + "[" + std::to_string(i) + "]";
    TokenIds tokens;
    if (auto* ids = std::get_if<TokenIds>(&(*prompts)[i])) {
      tokens = std::move(*ids);
    } else {
      const std::string& text = std::get<std::string>((*prompts)[i]);
      ASSIGN_OR_RETURN_ERROR(tokens, EncodePrompt(context, param, params, text,
                                                  params.add_special_tokens.value_or(true)));
    }
    const bool is_whole = !Truncate(context, params, &tokens);
    if (echoes) {
      const auto* text = is_whole ? std::get_if<std::string>(&(*prompts)[i]) : nullptr;
      choice.echo =
          EchoPrompt(context.tokenizer, tokens, text, params.skip_special_tokens, params.logprobs);
    }
    if (auto error = AddPrompt(context, params, param, std::move(tokens), choice, request, plan)) {
      return error;
    }
  }
  return std::nullopt;
}

// Whether the last of the marks in the prompt is the opening one.
bool EndsInReasoning(const TokenIds& prompt, const ReasoningBound& bound) {
  const auto is_mark = [&](int32_t t) { return t == bound.opening || t == bound.closing; };
  const auto last = std::find_if(prompt.rbegin(), prompt.rend(), is_mark);
  return last != prompt.rend() && *last == bound.opening;
}

// Reasoning ends where the client says; else, where the answer must have a form, after half of the
// answer's tokens, so that the others have room for that. `output`: of a chat.
std::optional<ApiError> BoundReasoning(const ApiContext& context, ReasoningFormat format,
                                       const GenerationParams& params, const OutputOptions* output,
                                       bool has_form, GenerationPlan* plan) {
  const std::optional<int32_t>& wanted = params.reasoning_tokens_max;
  if (!wanted.has_value() && !(has_form && format != ReasoningFormat::kNone)) return std::nullopt;
  const auto opening = context.tokenizer.TokenId(ReasoningOpeningMark(format));
  const auto closing = context.tokenizer.TokenId(ReasoningClosingMark(format));
  if (format == ReasoningFormat::kNone || !opening.has_value() || !closing.has_value()) {
    if (!wanted.has_value()) return std::nullopt;
    ApiError error = InvalidRequestError(
        "thinking_token_budget",
        "'thinking_token_budget' has no effect here: this model has no tokens that begin and end "
        "its reasoning, or nobody knows them (--reasoning-parser)");
    error.code = "unsupported";
    return error;
  }
  for (Request& request : plan->requests) {
    request.reasoning = {.tokens_max = wanted.value_or(request.sampling.tokens_max / 2),
                         .opening = *opening,
                         .closing = *closing};
    request.reasoning.is_open = output != nullptr
                                    ? output->in_reasoning
                                    : EndsInReasoning(request.prompt_tokens, request.reasoning);
  }
  return std::nullopt;
}

ApiResult<GenerationPlan> PlanCompletion(const ApiContext& context, const RequestLimits& limits,
                                         const ApiKey& key, CompletionRequest parsed) {
  Request request;
  ChoiceOptions choice{.continues_prompt = true};
  GenerationParams& params = parsed.params;
  AskedTexts texts;
  ASSIGN_OR_RETURN_ERROR(GenerationPlan plan,
                         StartPlan(context, key, false, params, &request, &choice, &texts));
  if (!params.answer.is_text()) {
    ASSIGN_OR_RETURN_ERROR(OrderedJson format, GrammarFormatOf(params.answer));
    request.grammar = GrammarText(std::move(format));
  }
  if (auto error = AddPrompts(context, params, "prompt", &parsed.prompts, parsed.echo, choice,
                              request, &plan)) {
    return *error;
  }
  ApiResult<AdapterTextPtr> text = texts.ForChat();
  const ReasoningFormat reasoning =
      text.ok() ? ChatTextOf(context, *text).reasoning_format : context.reasoning_format;
  if (auto error = BoundReasoning(context, reasoning, params, nullptr, false, &plan)) {
    return *error;
  }
  if (auto error = BoundLogprobs(params, limits.logprobs_max, &plan)) return *error;
  return plan;
}

// Names that the key may use and `name` may have meant. The catalog's search may miss the few that
// a key may use among the many that there are; few are looked at one by one.
std::string AllowedNamesNear(const ApiContext& context, const ApiKey& key,
                             const std::string& name) {
  constexpr size_t kLookedAtMax = 256;
  const ApiKey::Rights& rights = key.rights();
  const auto may_use = [&](const std::string& model) {
    if (model == context.base_model) return key.Allows(model);
    const Result<AdapterInfo> adapter = context.catalog.Find(model);
    return adapter.ok() && MayUseListed(context, key, *adapter);
  };
  const bool names_few =
      !rights.all_models && rights.model_patterns.empty() && rights.models.size() <= kLookedAtMax;
  if (!names_few) {
    // No one mistypes a learned adapter's name, so none is suggested, even to its owner.
    // Nor is one that a source has: another tenant may have asked for it.
    return context.catalog.NamesNear(name, [&](const std::string& model) {
      return !model.starts_with(kLearnedPrefix) && key.Allows(model) &&
             (context.sources == nullptr || !context.sources->MayHave(model));
    });
  }
  std::vector<std::string> names;
  for (const std::string& model : rights.models) {
    if (may_use(model)) names.push_back(model);
  }
  return NearestNames(name, names);
}

}  // namespace

ApiResult<GenerationPlan> PlanChat(const ApiContext& context, const RequestLimits& limits,
                                   const ApiKey& key, ChatRequest parsed) {
  Request request;
  ChoiceOptions choice;
  AskedTexts texts;
  ASSIGN_OR_RETURN_ERROR(GenerationPlan plan,
                         StartPlan(context, key, true, parsed.params, &request, &choice, &texts));
  const std::string field = parsed.messages.field;
  ASSIGN_OR_RETURN_ERROR(const AdapterTextPtr text, texts.ForChat());
  const ChatText chat_text = ChatTextOf(context, text);
  ASSIGN_OR_RETURN_ERROR(RenderedChat prompt, RenderChat(context, chat_text, &parsed));
  ASSIGN_OR_RETURN_ERROR(choice.output, OutputOptionsOf(chat_text, &parsed, prompt.text));
  ASSIGN_OR_RETURN_ERROR(request.grammar, ChatGrammarOf(parsed, choice.output.get()));
  if (choice.output != nullptr) {
    choice.kept_tokens = MarkTokensOf(*choice.output, context.tokenizer);
  }
  plan.head.short_call_ids = chat_text.tool_format == ToolFormat::kMistral;
  ASSIGN_OR_RETURN_ERROR(
      TokenIds tokens,
      EncodePrompt(context, field, parsed.params, prompt.text,
                   parsed.params.add_special_tokens.value_or(false), prompt.untrusted));
  Truncate(context, parsed.params, &tokens);
  choice.continues_prompt = parsed.continue_final_message;
  if (auto error =
          AddPrompt(context, parsed.params, field, std::move(tokens), choice, request, &plan)) {
    return *error;
  }
  const bool has_form = parsed.tools.must_call || !parsed.params.answer.is_text();
  if (auto error = BoundReasoning(context, chat_text.reasoning_format, parsed.params,
                                  choice.output.get(), has_form, &plan)) {
    return *error;
  }
  if (auto error = BoundLogprobs(parsed.params, limits.logprobs_max, &plan)) return *error;
  return plan;
}

bool MayUseListed(const ApiContext& context, const ApiKey& key, const AdapterInfo& adapter) {
  if (!key.MayUse(adapter)) return false;
  if (!adapter.is_looked_up) return true;
  // Where this server has no such source, it cannot know which tenants may use it.
  return context.sources != nullptr && context.sources->Permits(adapter, key.rights().tenant);
}

bool MayUseModel(const ApiContext& context, const ApiKey& key, const std::string& name) {
  const Result<AdapterInfo> adapter = context.catalog.Find(name);
  return adapter.ok() ? MayUseListed(context, key, *adapter) : key.Allows(name);
}

ApiResult<AdapterInfo> FindModel(const ApiContext& context, const ApiKey& key,
                                 const std::string& name) {
  if (name == context.base_model) {
    if (key.Allows(name)) return AdapterInfo{.name = name};
  } else {
    Result<AdapterInfo> adapter = context.catalog.Find(name);
    if (adapter.ok() && MayUseListed(context, key, *adapter)) return std::move(*adapter);
    if (!adapter.ok() && adapter.status().code() != StatusCode::kNotFound && key.Allows(name)) {
      ApiError error = ErrorFromStatus(adapter.status(), "model");
      if (adapter.status().code() == StatusCode::kUnavailable) {
        error.retry_after_s = context.UnavailableRetryAfterS();
      }
      return error;
    }
  }
  ApiError error = ModelNotFoundError(name, AllowedNamesNear(context, key, name));
  if (context.sources != nullptr && key.Allows(name) && context.sources->MayHave(name)) {
    error.model_to_fetch = name;
  }
  return error;
}

ApiResult<AdapterInfo> UseModel(const ApiContext& context, const ApiKey& key,
                                const std::string& name) {
  ApiResult<AdapterInfo> found = FindModel(context, key, name);
  if (found.ok() && found->is_looked_up) context.sources->Used(found->name, key.rights().tenant);
  return found;
}

ApiResult<GenerationPlan> PlanEmbeddings(const ApiContext& context, const RequestLimits& limits,
                                         const ApiKey& key, Pooling pooling,
                                         std::string_view body) {
  ASSIGN_OR_RETURN_ERROR(const Json json, ParseBody(body));
  ASSIGN_OR_RETURN_ERROR(EmbeddingRequest parsed, ParseEmbeddingRequest(json, limits));
  Request request{.pooling = pooling};
  ChoiceOptions choice{.pools = true};
  GenerationParams& params = parsed.params;
  AskedTexts texts;
  ASSIGN_OR_RETURN_ERROR(GenerationPlan plan, StartPlan(context, key, /*is_chat=*/false, params,
                                                        &request, &choice, &texts));
  plan.embeddings = parsed.format;
  if (auto error = AddPrompts(context, params, "input", &parsed.inputs, /*echoes=*/false, choice,
                              request, &plan)) {
    return *error;
  }
  return plan;
}

ApiResult<GenerationPlan> PlanGeneration(const ApiContext& context, const RequestLimits& limits,
                                         const ApiKey& key, bool is_chat, std::string_view body) {
  ASSIGN_OR_RETURN_ERROR(const Json json, ParseBody(body));
  if (is_chat) {
    ASSIGN_OR_RETURN_ERROR(ChatRequest request, ParseChatRequest(json, limits, context.defaults));
    UseOrderOf(body, &request);
    UseOrderOf(body, &request.params.answer);
    return PlanChat(context, limits, key, std::move(request));
  }
  ASSIGN_OR_RETURN_ERROR(CompletionRequest request,
                         ParseCompletionRequest(json, limits, context.defaults));
  UseOrderOf(body, &request.params.answer);
  return PlanCompletion(context, limits, key, std::move(request));
}

}  // namespace graft
