#include "openai/api_fields.h"

#include <initializer_list>

#include "jobs/document_method.h"

namespace graft {
namespace {

using Names = std::initializer_list<const char*>;

std::vector<ApiField> Rows(Names read, Names ignored = {},
                           std::initializer_list<ApiField> refused = {}) {
  std::vector<ApiField> rows;
  for (const char* const name : read) rows.push_back({.name = name});
  for (const char* const name : ignored) {
    rows.push_back({.name = name, .use = FieldUse::kIgnored});
  }
  rows.insert(rows.end(), refused.begin(), refused.end());
  return rows;
}

ApiField Refused(const char* name, const char* neutral) {
  return {.name = name, .use = FieldUse::kRefused, .neutral = neutral};
}

std::vector<ApiField> JoinedRows(std::vector<ApiField> rows, const std::vector<ApiField>& others) {
  rows.insert(rows.end(), others.begin(), others.end());
  return rows;
}

std::vector<ApiField> SamplingRows() {
  return Rows({"model",
               "adapters",
               "temperature",
               "top_p",
               "top_k",
               "min_p",
               "repetition_penalty",
               "frequency_penalty",
               "presence_penalty",
               "logit_bias",
               "seed",
               "stop",
               "stop_token_ids",
               "bad_words",
               "allowed_token_ids",
               "include_stop_str_in_output",
               "ignore_eos",
               "min_tokens",
               "cache_salt",
               "priority",
               "draft_tokens_max"});
}

// What completions and chats share.
std::vector<ApiField> SharedRows() {
  const std::vector<ApiField> rows = Rows(
      {"max_tokens", "n", "skip_special_tokens", "add_special_tokens", "truncate_prompt_tokens",
       "truncation_side", "stream", "stream_options", "return_tokens_as_token_ids",
       "return_token_ids", "thinking_token_budget", "prompt_logprobs", "response_format",
       "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"},
      {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
       "prompt_cache_retention", "request_id", "session_id", "guided_decoding_backend",
       // They say how many tokens a chunk has, and what vLLM's endpoints that render a prompt
       // answer.
       "stream_interval", "return_token_offsets", "return_mm_kwargs",
       // llama.cpp's, about its cache of prompts and its measurements.
       "cache_prompt", "timings_per_token"},
      {Refused("use_beam_search", "false"), Refused("length_penalty", "1.0"),
       Refused("spaces_between_special_tokens", "true"), Refused("watermarking", "false"),
       Refused("routed_experts_prompt_start", "0"), Refused("typical_p", "1.0"),
       Refused("mirostat", "0")});
  return JoinedRows(SamplingRows(), rows);
}

std::vector<ApiField> ChatRows() {
  return Rows({"messages", "max_completion_tokens", "logprobs", "top_logprobs", "tools",
               "tool_choice", "parallel_tool_calls", "include_reasoning", "chat_template_kwargs",
               "documents", "reasoning_effort", "add_generation_prompt", "continue_final_message"},
              {"prediction", "prompt_cache_options"},
              {Refused("function_call", "\"none\""), Refused("modalities", "[\"text\"]"),
               Refused("verbosity", "\"medium\""), Refused("return_prompt_text", "false"),
               Refused("echo", "false")});
}

// The fields of /v1/responses in OpenAI's openai 3.57 and in vLLM.
std::vector<ApiField> ResponsesRows() {
  return Rows(
      {"input", "instructions", "previous_response_id", "store", "metadata", "max_output_tokens",
       "stream", "stream_options", "include", "top_logprobs", "tools", "tool_choice",
       "parallel_tool_calls", "reasoning", "text", "skip_special_tokens", "chat_template_kwargs"},
      {"user", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
       "prompt_cache_options", "request_id",
       // Counts calls of tools that the server runs itself. There are none.
       "max_tool_calls"},
      {Refused("background", "false"), Refused("truncation", "\"disabled\""),
       Refused("enable_response_messages", "false")});
}

std::vector<ApiField> EmbeddingRows() {
  return Rows(
      {"model", "adapters", "input", "encoding_format", "normalize", "add_special_tokens",
       "truncate_prompt_tokens", "truncation_side", "cache_salt", "priority"},
      {"user", "safety_identifier", "request_id"},
      {Refused("embed_dtype", "\"float32\""), Refused("endianness", "\"native\""),
       Refused("use_activation", "true"), Refused("padding", "\"do_not_pad\""),
       Refused("add_generation_prompt", "false"), Refused("continue_final_message", "false")});
}

std::vector<ApiField> HyperparameterRows() {
  std::vector<ApiField> rows;
  for (const MethodRow& row : MethodRows()) {
    if (*row.field != '\0') rows.push_back({.name = row.field});
  }
  rows.push_back(Refused("hidden_states", "\"none\""));
  return rows;
}

}  // namespace

const ApiFields& CompletionFields() {
  static const ApiFields fields(
      JoinedRows(SharedRows(),
                 Rows({"prompt", "echo", "logprobs", "best_of"}, {}, {Refused("suffix", "\"\"")})));
  return fields;
}

const ApiFields& ChatFields() {
  static const ApiFields fields(JoinedRows(SharedRows(), ChatRows()));
  return fields;
}

const ApiFields& ResponsesFields() {
  static const ApiFields fields(JoinedRows(SamplingRows(), ResponsesRows()));
  return fields;
}

const ApiFields& EmbeddingFields() {
  static const ApiFields fields(EmbeddingRows());
  return fields;
}

const ApiFields& TokenizeTextFields() {
  static const ApiFields fields(
      Rows({"model", "add_special_tokens", "return_token_strs", "prompt"}));
  return fields;
}

const ApiFields& TokenizeChatFields() {
  static const ApiFields fields(
      Rows({"model", "add_special_tokens", "return_token_strs", "messages", "tools", "tool_choice",
            "parallel_tool_calls", "chat_template_kwargs", "documents", "reasoning_effort",
            "add_generation_prompt", "continue_final_message"}));
  return fields;
}

const ApiFields& DetokenizeFields() {
  static const ApiFields fields(Rows({"model", "tokens"}));
  return fields;
}

const ApiFields& FineTuningFields() {
  // Its refusal of hyperparameters names the place where they are read.
  static const ApiFields fields(
      Rows({"model", "training_file", "method", "suffix", "seed", "metadata"}, {"user"},
           {Refused("hyperparameters", "{}")}));
  return fields;
}

const ApiFields& HyperparameterFields() {
  static const ApiFields fields(HyperparameterRows());
  return fields;
}

}  // namespace graft
