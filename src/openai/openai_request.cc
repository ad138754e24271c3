#include "openai/openai_request.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "http/field_reader.h"
#include "openai/api_fields.h"

namespace graft {
namespace {

constexpr size_t kPathBytesMax = 4096;
constexpr int32_t kTopLogprobsMax = 20;

void ReadLogitBias(FieldReader& reader, size_t items_max, SamplingParams* sampling) {
  const Json* json = reader.Take("logit_bias");
  if (json == nullptr) return;
  if (!json->is_object()) {
    return reader.Fail("logit_bias", std::string("must be an object of token id to number, got ") +
                                         JsonTypeName(*json));
  }
  if (json->size() > items_max) {
    return reader.Fail("logit_bias", "has more than " + std::to_string(items_max) + " entries");
  }
  for (const auto& [key, value] : json->items()) {
    int32_t token = -1;
    const char* end = key.data() + key.size();
    const auto parsed = std::from_chars(key.data(), end, token);
    if (parsed.ec != std::errc() || parsed.ptr != end || token < 0) {
      return reader.Fail("logit_bias", "needs token ids as keys, got '" + key.substr(0, 40) + "'");
    }
    if (!value.is_number()) {
      return reader.Fail("logit_bias." + key,
                         std::string("must be a number, got ") + JsonTypeName(value));
    }
    // Clamped so that the cast is defined; the range check that follows refuses it all the same.
    const double bias = std::min(std::max(value.get<double>(), -1e6), 1e6);
    sampling->logit_bias.emplace_back(token, static_cast<float>(bias));
  }
}

// An empty stop string, which some clients send for none, would stop nothing.
void ReadStops(FieldReader& reader, const RequestLimits& limits, std::vector<std::string>* stops) {
  const Json* json = reader.Take("stop");
  if (json == nullptr || *json == "") return;
  if (!json->is_array()) {
    return reader.StringOrList("stop", limits.stops_max, limits.stop_bytes_max, stops);
  }
  Json kept = Json::array();
  for (const Json& stop : *json) {
    if (stop != "") kept.push_back(stop);
  }
  const Json object = {{"stop", std::move(kept)}};
  FieldReader filled(object, "");
  filled.StringOrList("stop", limits.stops_max, limits.stop_bytes_max, stops);
  if (auto error = filled.Finish()) reader.Fail(*error);
}

void ReadSeed(FieldReader& reader, std::optional<uint64_t>* seed) {
  const Json* json = reader.Take("seed");
  if (json == nullptr) return;
  const auto value =
      IntegerOf(*json, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  if (json->is_number_unsigned()) {
    *seed = json->get<uint64_t>();
  } else if (value.has_value()) {
    *seed = static_cast<uint64_t>(*value);
  } else {
    reader.Fail("seed", "must be a 64-bit integer");
  }
}

void ReadTopK(FieldReader& reader, int32_t* top_k) {
  reader.Int("top_k", -1, kInt32Max, top_k);
  if (*top_k == -1) *top_k = 0;  // vLLM's word for "off"
}

void ReadStream(FieldReader& reader, GenerationParams* params) {
  reader.Bool("stream", &params->stream);
  const Json* options = reader.Take("stream_options");
  if (options == nullptr || !params->stream) return;  // nothing is streamed
  FieldReader nested(*options, "stream_options.");
  nested.Bool("include_usage", &params->include_usage);
  nested.Bool("continuous_usage_stats", &params->continuous_usage);
  if (params->continuous_usage && !params->include_usage) {
    nested.Fail("continuous_usage_stats", "needs include_usage to be true");
  }
  nested.Ignore({"include_obfuscation"});
  if (auto error = nested.Finish()) reader.Fail(*error);
}

void ReadShared(FieldReader& reader, const RequestLimits& limits, GenerationParams* params) {
  ReadSampling(reader, limits, params);
  reader.Int("n", 1, limits.choices_max, &params->n);
  reader.Bool("skip_special_tokens", &params->skip_special_tokens);
  reader.OptionalBool("add_special_tokens", &params->add_special_tokens);
  reader.Bool("return_tokens_as_token_ids", &params->shows_token_ids);
  reader.Bool("return_token_ids", &params->returns_token_ids);
  reader.OptionalInt("thinking_token_budget", -1, kInt32Max, &params->reasoning_tokens_max);
  if (params->reasoning_tokens_max == -1) params->reasoning_tokens_max.reset();
  ReadStream(reader, params);
  ReadAnswerFormat(reader, &params->answer);
  ReadTruncation(reader, params);
  reader.OptionalInt("prompt_logprobs", 0, kTopLogprobsMax, &params->prompt_logprobs);
  if (params->prompt_logprobs.has_value() && params->stream) {
    reader.Fail("prompt_logprobs", "cannot be streamed: leave 'stream' out");
  }
}

// The engine has one number of alternatives for a prompt and its answer.
void UseLogprobs(std::optional<int32_t> num_top, GenerationParams* params) {
  params->logprobs = num_top.has_value();
  params->num_top_logprobs = num_top.value_or(0);
  params->sampling.num_logprobs =
      std::max(num_top.value_or(-1), params->prompt_logprobs.value_or(-1));
  params->sampling.prompt_logprobs = params->prompt_logprobs.has_value();
}

Prompt TokenPrompt(const Json& list) {
  std::vector<int32_t> tokens;
  tokens.reserve(list.size());
  for (const Json& token : list) {
    tokens.push_back(static_cast<int32_t>(*IntegerOf(token, 0, kInt32Max)));
  }
  return tokens;
}

// One prompt: text or token ids.
void ReadOnePrompt(FieldReader& reader, const std::string& name, const Json& json,
                   const RequestLimits& limits, std::vector<Prompt>* prompts) {
  if (json.is_string()) {
    const std::string& text = json.get_ref<const std::string&>();
    if (static_cast<int64_t>(text.size()) > limits.prompt_bytes_max) {
      return reader.Fail(name,
                         "is longer than " + std::to_string(limits.prompt_bytes_max) + " bytes");
    }
    prompts->emplace_back(text);
    return;
  }
  if (!json.is_array()) {
    return reader.Fail(
        name, std::string("must be a string or a list of token ids, got ") + JsonTypeName(json));
  }
  if (json.empty()) return reader.Fail(name, "must not be empty");
  for (size_t i = 0; i < json.size(); ++i) {
    if (IntegerOf(json[i], 0, kInt32Max).has_value()) continue;
    return reader.Fail(name + "[" + std::to_string(i) + "]",
                       std::string("must be a token id, got ") + JsonTypeName(json[i]));
  }
  prompts->push_back(TokenPrompt(json));
}

}  // namespace

void ReadTruncation(FieldReader& reader, GenerationParams* params) {
  reader.OptionalInt("truncate_prompt_tokens", -1, kInt32Max, &params->prompt_tokens_max);
  if (params->prompt_tokens_max == 0) {
    reader.Fail("truncate_prompt_tokens", "must be at least 1, or -1 for as many as fit");
  }
  if (reader.Take("truncation_side") == nullptr) return;
  params->keeps_first_tokens = reader.OneOf("truncation_side", {"left", "right"}) == "right";
}

void ReadPrompts(FieldReader& reader, const char* name, int32_t prompts_max,
                 const RequestLimits& limits, std::vector<Prompt>* prompts) {
  const Json* json = reader.Take(name);
  if (json == nullptr) return reader.Fail(name, "is required");
  // [1, 2] is one prompt of two tokens; ["a", "b"] and [[1], [2]] are two prompts.
  const bool is_batch = json->is_array() && !json->empty() && !(*json)[0].is_number();
  if (!is_batch) return ReadOnePrompt(reader, name, *json, limits, prompts);
  if (static_cast<int64_t>(json->size()) > prompts_max) {
    return reader.Fail(name, "has " + std::to_string(json->size()) + " prompts, the limit is " +
                                 std::to_string(prompts_max));
  }
  for (size_t i = 0; i < json->size(); ++i) {
    const std::string one = std::string(name) + "[" + std::to_string(i) + "]";
    ReadOnePrompt(reader, one, (*json)[i], limits, prompts);
  }
}

namespace {

// Whether the model begins an answer of its own or goes on with the last message.
void ReadContinuation(FieldReader& reader, ChatRequest* request) {
  std::optional<bool> begins;
  reader.OptionalBool("add_generation_prompt", &begins);
  reader.Bool("continue_final_message", &request->continue_final_message);
  request->add_generation_prompt = begins.value_or(!request->continue_final_message);
  if (!request->continue_final_message || reader.failed()) return;
  if (request->add_generation_prompt) {
    return reader.Fail("continue_final_message", "and 'add_generation_prompt' exclude each other");
  }
  const OrderedJson& last = request->messages.list.back();
  if (LastTextOf(last["content"]).empty()) {
    reader.Fail("continue_final_message", "needs a last message with a text to go on with");
  }
}

// Further values for templates. The plan refuses documents or an effort that the model's template
// does not use: the answer would ignore them.
void ReadTemplateValues(FieldReader& reader, ChatRequest* request) {
  if (const Json* documents = reader.Take("documents")) {
    if (!documents->is_array()) return reader.Fail("documents", "must be a list of objects");
    for (size_t i = 0; i < documents->size(); ++i) {
      if ((*documents)[i].is_object()) continue;
      return reader.Fail("documents[" + std::to_string(i) + "]", "must be an object");
    }
    if (!documents->empty()) request->documents = OrderedJson(*documents);
  }
  reader.String("reasoning_effort", &request->reasoning_effort, kNameBytesMax);
}

void ReadChatLogprobs(FieldReader& reader, GenerationParams* params) {
  bool is_on = false;
  reader.Bool("logprobs", &is_on);
  int32_t top = 0;
  reader.Int("top_logprobs", 0, kTopLogprobsMax, &top);
  if (top > 0 && !is_on) reader.Fail("top_logprobs", "needs logprobs to be true");
  UseLogprobs(is_on ? std::optional(top) : std::nullopt, params);
}

}  // namespace

void ReadSampling(FieldReader& reader, const RequestLimits& limits, GenerationParams* params) {
  reader.String("model", &params->model, kNameBytesMax);
  if (params->model.empty()) {
    reader.Fail("model", "is required: the base model's name or an adapter's, see /v1/models");
  }
  ReadAdapterShares(reader, &params->adapters);
  SamplingParams& sampling = params->sampling;
  reader.Float("temperature", &sampling.temperature);
  reader.Float("top_p", &sampling.top_p);
  ReadTopK(reader, &sampling.top_k);
  reader.Float("min_p", &sampling.min_p);
  reader.Float("repetition_penalty", &sampling.repetition_penalty);
  reader.Float("frequency_penalty", &sampling.frequency_penalty);
  reader.Float("presence_penalty", &sampling.presence_penalty);
  ReadLogitBias(reader, limits.logit_bias_max, &sampling);
  ReadSeed(reader, &params->seed);
  reader.Int("min_tokens", 0, kInt32Max, &sampling.tokens_min);
  ReadStops(reader, limits, &params->stop);
  reader.IntList("stop_token_ids", limits.stop_token_ids_max, &sampling.stop_token_ids);
  reader.StringOrList("bad_words", limits.bad_words_max, kNameBytesMax, &params->bad_words);
  std::vector<int32_t> allowed;
  reader.IntList("allowed_token_ids", limits.allowed_token_ids_max, &allowed);
  sampling.allowed_token_ids = std::move(allowed);
  if (const Json* ids = reader.Take("allowed_token_ids"); ids != nullptr && ids->empty()) {
    reader.Fail("allowed_token_ids", "must not be empty: nothing could be drawn");
  }
  reader.Bool("ignore_eos", &sampling.ignore_eos);
  reader.Bool("include_stop_str_in_output", &params->include_stop_text);
  reader.String("cache_salt", &params->cache_salt, kNameBytesMax);
  reader.Int("priority", -kInt32Max, kInt32Max, &params->priority);
  reader.OptionalInt("draft_tokens_max", 0, kInt32Max, &params->draft_tokens_max);
}

void ReadTokensMax(FieldReader& reader, const char* name, int32_t min, GenerationParams* params) {
  std::optional<int32_t> tokens_max;
  reader.OptionalInt(name, -1, kInt32Max, &tokens_max);
  if (!tokens_max.has_value()) return;
  if (*tokens_max >= 0 && *tokens_max < min) {
    return reader.Fail(name, "must be at least " + std::to_string(min) + ", or -1 for the room");
  }
  params->tokens_max.reset();
  if (*tokens_max >= 0) {
    params->tokens_max = tokens_max;
  } else {
    params->tokens_default = kInt32Max;
  }
}

void ReadTemplateKwargs(FieldReader& reader, ChatRequest* request) {
  const Json* json = reader.Take("chat_template_kwargs");
  if (json == nullptr) return;
  if (!json->is_object()) return reader.Fail("chat_template_kwargs", "must be an object");
  for (const char* taken :
       {"messages", "tools", "documents", "bos_token", "eos_token", "add_generation_prompt"}) {
    if (json->contains(taken)) {
      return reader.Fail(std::string("chat_template_kwargs.") + taken, "cannot be set here");
    }
  }
  request->template_kwargs = OrderedJson(*json);
}

void ReadConversation(FieldReader& reader, const RequestLimits& limits, ChatRequest* request) {
  ReadMessages(reader, limits, &request->messages);
  ReadContinuation(reader, request);
  ReadTemplateValues(reader, request);
  ReadTemplateKwargs(reader, request);
  ReadTools(reader, static_cast<size_t>(limits.tools_max), ToolForm::kNested, &request->tools);
}

void CheckForm(FieldReader& reader, const GenerationParams& params, const ToolRequest& tools) {
  const std::string form = *tools.binds() != '\0' ? tools.binds() : params.answer.param;
  const SamplingParams& sampling = params.sampling;
  const auto refuse = [&](const char* name, const std::string& other) {
    reader.Fail(name, "cannot be put together with '" + other + "'");
  };
  // They could forbid the one token that ends the reasoning.
  if (const std::string budget = "thinking_token_budget"; params.reasoning_tokens_max.has_value()) {
    if (!params.bad_words.empty()) refuse("bad_words", budget);
    if (!sampling.allowed_token_ids.empty()) refuse("allowed_token_ids", budget);
    if (sampling.tokens_min > 0 && !sampling.stop_token_ids.empty()) refuse("min_tokens", budget);
  }
  if (form.empty()) return;
  if (sampling.tokens_min > 0) refuse("min_tokens", form);
  if (sampling.ignore_eos) refuse("ignore_eos", form);
  if (!params.bad_words.empty()) refuse("bad_words", form);
  if (!sampling.allowed_token_ids.empty()) refuse("allowed_token_ids", form);
}

void UseOrderOf(std::string_view body, ChatRequest* request) {
  const bool has_any = !request->tools.tools.empty() || !request->documents.is_null() ||
                       !request->template_kwargs.empty() || request->messages.has_argument_objects;
  if (!has_any) return;
  const Result<OrderedJson> json = ParseOrderedJson(body);
  if (!json.ok()) return;  // it was read before
  const auto take = [&json](const char* name, OrderedJson* out) {
    const auto it = json->find(name);
    if (it != json->end() && !it->is_null()) *out = *it;
  };
  if (!request->tools.tools.empty()) {
    take("tools", &request->shown_tools);
    DropHints(&request->shown_tools);
  }
  if (!request->documents.is_null()) take("documents", &request->documents);
  take("chat_template_kwargs", &request->template_kwargs);
  const auto messages = json->find("messages");
  if (request->messages.has_argument_objects && messages != json->end()) {
    UseArgumentOrder(*messages, &request->messages);
  }
}

ApiResult<CompletionRequest> ParseCompletionRequest(const Json& body, const RequestLimits& limits,
                                                    const GenerationDefaults& defaults) {
  CompletionRequest request;
  request.params.sampling = defaults.sampling;
  request.params.tokens_default = defaults.tokens_max;
  FieldReader reader(body, "", &CompletionFields());
  ReadShared(reader, limits, &request.params);
  ReadTokensMax(reader, "max_tokens", 0, &request.params);
  CheckForm(reader, request.params, {});
  ReadPrompts(reader, "prompt", limits.prompts_max, limits, &request.prompts);
  reader.Bool("echo", &request.echo);
  std::optional<int32_t> logprobs;
  const Json* given = reader.Take("logprobs");
  const bool is_off = given != nullptr && *given == false;  // chat's word for none
  if (!is_off) reader.OptionalInt("logprobs", 0, kTopLogprobsMax, &logprobs);
  UseLogprobs(logprobs, &request.params);
  request.params.sampling.prompt_logprobs |= request.echo && logprobs.has_value();
  int32_t best_of = request.params.n;
  reader.Int("best_of", 1, limits.choices_max, &best_of);
  if (best_of != request.params.n) {
    reader.Fail("best_of", "must equal n (" + std::to_string(request.params.n) +
                               "): choices are not ranked here");
  }
  reader.TakeUnread();
  if (static_cast<int64_t>(request.prompts.size()) * request.params.n > limits.choices_max) {
    reader.Fail("n", "times the number of prompts is more than " +
                         std::to_string(limits.choices_max) + " choices");
  }
  if (auto error = reader.Finish()) return *error;
  return request;
}

ApiResult<ChatRequest> ParseChatRequest(const Json& body, const RequestLimits& limits,
                                        const GenerationDefaults& defaults) {
  ChatRequest request;
  request.params.sampling = defaults.sampling;
  request.params.tokens_default = defaults.tokens_max;
  FieldReader reader(body, "", &ChatFields());
  ReadShared(reader, limits, &request.params);
  ReadConversation(reader, limits, &request);
  CheckForm(reader, request.params, request.tools);
  ReadChatLogprobs(reader, &request.params);
  // The newer name wins where both are given, as with OpenAI.
  ReadTokensMax(reader, "max_tokens", 1, &request.params);
  ReadTokensMax(reader, "max_completion_tokens", 1, &request.params);
  reader.Bool("include_reasoning", &request.include_reasoning);
  reader.TakeUnread();
  // Values for templates have no fields of their own; some clients send these as if they had.
  for (const char* name : {"enable_thinking", "thinking"}) {
    if (!body.is_object() || !body.contains(name) || body[name].is_null()) continue;
    reader.Fail(name, std::string("is a value for the chat template: send it as "
                                  "\"chat_template_kwargs\": {\"") +
                          name + "\": ...}");
  }
  if (auto error = reader.Finish()) return *error;
  return request;
}

ApiResult<AdapterLoad> ParseLoadAdapterRequest(const Json& body) {
  AdapterLoad load;
  FieldReader reader(body, "");
  reader.String("lora_name", &load.name, kNameBytesMax);
  if (load.name.empty()) reader.Fail("lora_name", "is required");
  reader.String("lora_path", &load.path, kPathBytesMax);
  if (load.path.empty()) reader.Fail("lora_path", "is required");
  if (load.path.find('\0') != std::string::npos) {
    reader.Fail("lora_path", "must not hold a zero byte");
  }
  reader.Bool("load_inplace", &load.replace);
  bool stacks_experts = false;
  reader.Bool("is_3d_lora_weight", &stacks_experts);  // vLLM's
  if (stacks_experts) {
    reader.Fail("is_3d_lora_weight", "must be false: stacked weights of experts are not served");
  }
  reader.Ignore({"base_model_name"});  // vLLM's; the adapter's own config is what is checked
  for (const char c : load.name) {
    if (static_cast<unsigned char>(c) < 0x20) {
      reader.Fail("lora_name", "must not hold control characters");
    }
  }
  if (auto error = reader.Finish()) return *error;
  return load;
}

ApiResult<std::string> ParseUnloadAdapterRequest(const Json& body) {
  std::string name;
  FieldReader reader(body, "");
  reader.String("lora_name", &name, kNameBytesMax);
  if (name.empty()) reader.Fail("lora_name", "is required");
  reader.Ignore({"lora_int_id"});  // vLLM's; ids are content hashes here
  if (auto error = reader.Finish()) return *error;
  return name;
}

}  // namespace graft
