#include "server/openai_request.h"

#include <charconv>
#include <limits>

#include "server/field_reader.h"

namespace graft {
namespace {

constexpr size_t kNameBytesMax = 256;
constexpr size_t kPathBytesMax = 4096;

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
  if (options == nullptr) return;
  if (!params->stream) return reader.Fail("stream_options", "is only allowed when stream is true");
  FieldReader nested(*options, "stream_options.");
  nested.Bool("include_usage", &params->include_usage);
  nested.Refuse("continuous_usage_stats", false);
  nested.Ignore({"include_obfuscation"});
  if (auto error = nested.Finish()) reader.Fail(*error);
}

void ReadResponseFormat(FieldReader& reader) {
  const Json* format = reader.Take("response_format");
  if (format == nullptr) return;
  FieldReader nested(*format, "response_format.");
  std::string type = "text";
  nested.String("type", &type, kNameBytesMax);
  if (!nested.failed() && type != "text") {
    nested.Fail("type", "supports 'text' only, got '" + type + "'");
  }
  if (nested.failed()) reader.Fail(*nested.Finish());
}

void ReadShared(FieldReader& reader, const RequestLimits& limits, GenerationParams* params) {
  reader.String("model", &params->model, kNameBytesMax);
  if (params->model.empty()) {
    reader.Fail("model", "is required: the base model's name or an adapter's, see /v1/models");
  }
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
  reader.OptionalInt("max_tokens", 0, kInt32Max, &params->tokens_max);
  reader.Int("min_tokens", 0, kInt32Max, &sampling.tokens_min);
  reader.Int("n", 1, limits.choices_max, &params->n);
  reader.StringOrList("stop", limits.stops_max, limits.stop_bytes_max, &params->stop);
  reader.IntList("stop_token_ids", limits.stop_token_ids_max, &sampling.stop_token_ids);
  reader.Bool("ignore_eos", &sampling.ignore_eos);
  reader.Bool("include_stop_str_in_output", &params->include_stop_text);
  reader.Bool("skip_special_tokens", &params->skip_special_tokens);
  bool add_special_tokens = false;
  if (const Json* given = reader.Take("add_special_tokens")) {
    reader.Bool("add_special_tokens", &add_special_tokens);
    if (given->is_boolean()) params->add_special_tokens = add_special_tokens;
  }
  ReadStream(reader, params);
  ReadResponseFormat(reader);
  // They name, file or speed up a request, and change no token.
  reader.Ignore({"user", "metadata", "store", "service_tier", "safety_identifier",
                 "prompt_cache_key", "prompt_cache_retention", "request_id"});
  reader.String("cache_salt", &params->cache_salt, kNameBytesMax);
  reader.Refuse("use_beam_search", false);
  reader.Refuse("length_penalty", 1.0);
  reader.Refuse("spaces_between_special_tokens", true);
  reader.Refuse("priority", 0);
  reader.Refuse("return_token_ids", false);
  reader.Refuse("return_tokens_as_token_ids", false);
  reader.Refuse({"allowed_token_ids", "bad_words", "prompt_logprobs", "truncate_prompt_tokens",
                 "logits_processors", "guided_json", "guided_regex", "guided_choice",
                 "guided_grammar", "guided_decoding_backend", "structured_outputs", "prompt_embeds",
                 "kv_transfer_params", "vllm_xargs"});
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

void ReadPrompts(FieldReader& reader, const RequestLimits& limits, std::vector<Prompt>* prompts) {
  const Json* json = reader.Take("prompt");
  if (json == nullptr) return reader.Fail("prompt", "is required");
  // [1, 2] is one prompt of two tokens; ["a", "b"] and [[1], [2]] are two prompts.
  const bool is_batch = json->is_array() && !json->empty() && !(*json)[0].is_number();
  if (!is_batch) return ReadOnePrompt(reader, "prompt", *json, limits, prompts);
  if (static_cast<int64_t>(json->size()) > limits.prompts_max) {
    return reader.Fail("prompt", "has " + std::to_string(json->size()) + " prompts, the limit is " +
                                     std::to_string(limits.prompts_max));
  }
  for (size_t i = 0; i < json->size(); ++i) {
    ReadOnePrompt(reader, "prompt[" + std::to_string(i) + "]", (*json)[i], limits, prompts);
  }
}

// A message's content as one string: text parts are joined by line feeds, as vLLM does.
void ReadContent(FieldReader& reader, const std::string& path, std::string* text) {
  const Json* json = reader.Take("content");
  if (json == nullptr) return;
  if (json->is_string()) {
    *text = json->get<std::string>();
    return;
  }
  if (!json->is_array()) {
    return reader.Fail(
        "content", std::string("must be a string or a list of parts, got ") + JsonTypeName(*json));
  }
  for (size_t i = 0; i < json->size(); ++i) {
    FieldReader part((*json)[i], path + "content[" + std::to_string(i) + "].");
    std::string type;
    part.String("type", &type, kNameBytesMax);
    if (!part.failed() && type != "text") {
      part.Fail("type",
                "must be 'text', the only kind of content there is here, got '" + type + "'");
    }
    const Json* value = part.Take("text");
    if (!part.failed() && (value == nullptr || !value->is_string())) {
      part.Fail("text", "must be a string");
    }
    part.Ignore({"cache_control"});
    if (auto error = part.Finish()) return reader.Fail(*error);
    if (i > 0) *text += '\n';
    *text += value->get_ref<const std::string&>();
  }
}

std::optional<ApiError> ReadMessage(const Json& json, const std::string& path,
                                    OrderedJson* messages) {
  FieldReader reader(json, path);
  std::string role, name, content;
  reader.String("role", &role, kNameBytesMax);
  if (!reader.failed() && role != "system" && role != "developer" && role != "user" &&
      role != "assistant") {
    reader.Fail("role", "must be 'system', 'developer', 'user' or 'assistant', got '" + role + "'");
  }
  ReadContent(reader, path, &content);
  if (!reader.failed() && role != "assistant" && !json.contains("content")) {
    reader.Fail("content", "is required");
  }
  reader.String("name", &name, kNameBytesMax);
  reader.Refuse({"tool_calls", "tool_call_id", "function_call", "audio", "refusal"});
  // A field of this server's own answers, which clients send back.
  reader.Ignore({"annotations"});
  if (auto error = reader.Finish()) return error;
  // OpenAI's newer word for the same thing, which few templates know.
  if (role == "developer") role = "system";
  OrderedJson message = {{"role", role}, {"content", content}};
  if (!name.empty()) message["name"] = name;
  messages->push_back(std::move(message));
  return std::nullopt;
}

void ReadMessages(FieldReader& reader, const RequestLimits& limits, OrderedJson* messages) {
  const Json* json = reader.Take("messages");
  if (json == nullptr) return reader.Fail("messages", "is required");
  if (!json->is_array() || json->empty()) {
    return reader.Fail("messages", "must be a list of at least one message");
  }
  if (static_cast<int64_t>(json->size()) > limits.messages_max) {
    return reader.Fail("messages", "has " + std::to_string(json->size()) +
                                       " messages, the limit is " +
                                       std::to_string(limits.messages_max));
  }
  int64_t bytes = 0;
  for (size_t i = 0; i < json->size(); ++i) {
    const std::string path = "messages[" + std::to_string(i) + "].";
    if (auto error = ReadMessage((*json)[i], path, messages)) return reader.Fail(*error);
    bytes += static_cast<int64_t>(messages->back()["content"].get_ref<std::string&>().size());
  }
  if (bytes > limits.prompt_bytes_max) {
    reader.Fail("messages",
                "hold more than " + std::to_string(limits.prompt_bytes_max) + " bytes of text");
  }
}

void ReadTemplateKwargs(FieldReader& reader, ChatRequest* request) {
  reader.Bool("add_generation_prompt", &request->add_generation_prompt);
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

void ReadChatLogprobs(FieldReader& reader, GenerationParams* params) {
  reader.Bool("logprobs", &params->logprobs);
  std::optional<int32_t> top;
  reader.OptionalInt("top_logprobs", 0, 20, &top);
  if (top.value_or(0) > 0 && !params->logprobs) {
    reader.Fail("top_logprobs", "needs logprobs to be true");
  }
  if (params->logprobs) params->sampling.num_logprobs = top.value_or(0);
}

// A model that has its tools in the prompt may know of them without calling one; its calls are not
// read here.
void ReadTools(FieldReader& reader, int32_t tools_max, bool* has_tools) {
  const Json* tools = reader.Take("tools");
  if (tools == nullptr || (tools->is_array() && tools->empty())) {
    return reader.Refuse("tool_choice", "none");
  }
  std::string choice = "auto";
  reader.String("tool_choice", &choice, kNameBytesMax);
  if (choice != "none") {
    return reader.Fail("tools",
                       "are shown to the model with 'tool_choice': \"none\" alone: calls are not "
                       "supported here");
  }
  if (!tools->is_array() || tools->size() > static_cast<size_t>(tools_max)) {
    return reader.Fail("tools",
                       "must be a list of at most " + std::to_string(tools_max) + " tools");
  }
  for (size_t i = 0; i < tools->size(); ++i) {
    if ((*tools)[i].is_object()) continue;
    return reader.Fail("tools[" + std::to_string(i) + "]",
                       std::string("must be an object, got ") + JsonTypeName((*tools)[i]));
  }
  *has_tools = true;
}

void RefuseChatExtras(FieldReader& reader) {
  reader.Refuse("function_call", "none");
  reader.Refuse({"functions", "audio", "web_search_options", "documents", "chat_template",
                 "reasoning_effort", "verbosity", "mm_processor_kwargs"});
  reader.Refuse("modalities", Json::array({"text"}));
  reader.Refuse("continue_final_message", false);
  reader.Refuse("echo", false);
  // Nothing is called, in parallel or not; a prediction is a hint for speed.
  reader.Ignore({"parallel_tool_calls", "prediction"});
}

}  // namespace

ApiResult<CompletionRequest> ParseCompletionRequest(const Json& body, const RequestLimits& limits,
                                                    const GenerationDefaults& defaults) {
  CompletionRequest request;
  request.params.sampling = defaults.sampling;
  request.params.tokens_default = defaults.tokens_max;
  FieldReader reader(body, "");
  ReadShared(reader, limits, &request.params);
  ReadPrompts(reader, limits, &request.prompts);
  reader.Bool("echo", &request.echo);
  std::optional<int32_t> logprobs;
  reader.OptionalInt("logprobs", 0, 20, &logprobs);
  request.params.logprobs = logprobs.has_value();
  request.params.sampling.num_logprobs = logprobs.value_or(-1);
  request.params.sampling.prompt_logprobs = request.echo && logprobs.has_value();
  int32_t best_of = request.params.n;
  reader.Int("best_of", 1, limits.choices_max, &best_of);
  if (best_of != request.params.n) {
    reader.Fail("best_of", "must equal n (" + std::to_string(request.params.n) +
                               "): choices are not ranked here");
  }
  reader.Refuse("suffix");
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
  FieldReader reader(body, "");
  ReadShared(reader, limits, &request.params);
  ReadMessages(reader, limits, &request.messages);
  ReadTemplateKwargs(reader, &request);
  ReadChatLogprobs(reader, &request.params);
  // The newer name wins where both are given, as with OpenAI.
  reader.OptionalInt("max_completion_tokens", 0, kInt32Max, &request.params.tokens_max);
  if (request.params.tokens_max == 0) {
    const bool is_newer = body.contains("max_completion_tokens");
    reader.Fail(is_newer ? "max_completion_tokens" : "max_tokens", "must be at least 1");
  }
  ReadTools(reader, limits.tools_max, &request.has_tools);
  RefuseChatExtras(reader);
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
