#include "openai/api_fields.h"

#include <cstdio>
#include <deque>
#include <utility>

#include "jobs/document_method.h"

namespace graft {
namespace {

constexpr FieldUse kIgnored = FieldUse::kIgnored;
constexpr FieldUse kRefused = FieldUse::kRefused;

ApiField Read(const char* name, const char* type, const char* initial, const char* note = "") {
  return {.name = name, .type = type, .initial = initial, .note = note};
}

ApiField Ignored(const char* name) { return {.name = name, .use = kIgnored}; }

ApiField Refused(const char* name, const char* neutral) {
  return {.name = name, .use = kRefused, .neutral = neutral};
}

std::vector<ApiField> SamplingRows() {
  return {
      Read("model", "string", "required"),
      Read("adapters", "list of `{\"name\", \"weight\"}`, up to 8", "none",
           "beside the base model's name in `model`: these adapters' [weighted "
           "sum](adapters.md#several-adapters-in-one-request); a weight is -100 to 100, 1 where "
           "it is left out"),
      Read("temperature", "number, 0 to 100", "1", "0 is greedy"),
      Read("top_p", "number, above 0, to 1", "1"),
      Read("top_k", "integer", "0", "0 or -1: off"),
      Read("min_p", "number, 0 to 1", "0", "share of the likeliest token's probability"),
      Read("repetition_penalty", "number, 0.01 to 100", "1", "over prompt and output"),
      Read("frequency_penalty", "number, -2 to 2", "0", "over the output"),
      Read("presence_penalty", "number, -2 to 2", "0", "over the output"),
      Read("logit_bias", "object of token id to number, -100 to 100", "none", "at most 1,024"),
      Read("seed", "64-bit integer", "random",
           "choice 0 draws with it, further choices with values derived from it"),
      Read("stop", "string or list of up to 16", "none",
           "at most 1,024 bytes each; not part of the text. Special tokens that one spells out "
           "count, "
           "also where the text leaves them out. Empty ones are none"),
      Read("stop_token_ids", "list of integers", "none", "at most 256"),
      Read("bad_words", "string or list of up to 256", "none",
           "at most 256 bytes each; not written, at the start of a text or behind a space"),
      Read("allowed_token_ids", "list of integers", "all",
           "nothing else is drawn, the end of the text neither unless its token is among them"),
      Read("include_stop_str_in_output", "boolean", "false",
           "stop strings and stop tokens stay in the text"),
      Read("ignore_eos", "boolean", "false"),
      Read("min_tokens", "integer", "0",
           "no end before so many; `stop` is looked for in what follows"),
      Read("cache_salt", "string", "none",
           "the [prefix cache](engine.md#prefix-cache) is shared with requests of the same tenant "
           "and salt alone"),
      Read("priority", "integer", "0",
           "the smallest goes first, as in vLLM, [among the requests of one "
           "key](engine.md#fair-shares)"),
      Read("draft_tokens_max", "integer", "`--speculate`",
           "tokens that a step [foresees](engine.md#drafts) at most; 0: none. No token depends on "
           "it"),
  };
}

std::vector<ApiField> AnswerRows() {
  return {
      Read("max_tokens", "integer", "completions 16, chat the rest of the context",
           "more than fits beside the prompt is refused (400 `context_length_exceeded`); -1: all "
           "that fits"),
      Read("n", "integer, 1 to 128", "1", "choices per prompt"),
      Read("skip_special_tokens", "boolean", "true"),
      Read("add_special_tokens", "boolean", "completions true, chat false",
           "chat templates write their own"),
      Read("truncate_prompt_tokens", "integer", "none",
           "the prompt's last so many tokens; -1: as many as leave room for `max_tokens`"),
      Read("truncation_side", "string", "`\"left\"`",
           "`\"right\"`: what `truncate_prompt_tokens` leaves are the prompt's first tokens"),
      Read("stream", "boolean", "false", "server-sent events"),
      Read("stream_options", "object", "none",
           "`include_usage`: a last chunk with the usage; `continuous_usage_stats`: and in every "
           "chunk the usage so far. Without `stream` it is ignored"),
      Read("return_tokens_as_token_ids", "boolean", "false",
           "tokens of logprobs read `token_id:17`"),
      Read("return_token_ids", "boolean", "false",
           "as vLLM's: `token_ids` of a choice, or of a chunk's, are the tokens that were drawn, "
           "the one that ended it among them. `prompt_token_ids` are a completion's choice's, and "
           "a chat's once; in a stream they come with the first tokens"),
      Read("thinking_token_budget", "integer, -1 or more", "-1",
           "tokens of reasoning at most: [its end comes "
           "then](structured-output.md#reasoning-that-ends). -1: as many as the model likes"),
      Read(
          "prompt_logprobs", "integer, 0 to 20", "none",
          "as vLLM's: a choice's, or a chat's, `prompt_logprobs` has for every token of the prompt "
          "but the first `{id: {logprob, rank, decoded_token}}`, the token's own and so many of "
          "the likeliest; `rank` is null of a token that is none of them. Not with `stream`"),
      Read("response_format", "object", "text",
           "`{\"type\": \"json_object\"}` or `{\"type\": \"json_schema\", \"json_schema\": "
           "{\"name\", \"schema\"}}`: the answer is [bound to it](structured-output.md), `strict` "
           "or not. Also vLLM's `{\"type\": \"structural_tag\", ...}`"),
      Read("structured_outputs", "object", "none",
           "one of `json` (a schema), `regex`, `choice` (a list of strings), `grammar` (EBNF), "
           "`structural_tag` and `json_object`: the answer is [bound to it](structured-output.md)"),
      Read("guided_json", "object or string", "none", "`structured_outputs`' older names"),
      Read("guided_regex", "string", "none", ""),
      Read("guided_choice", "list of strings", "none", ""),
      Read("guided_grammar", "string", "none", ""),
  };
}

std::vector<ApiField> UnusedRows() {
  return {
      Ignored("user"),
      Ignored("metadata"),
      Ignored("store"),
      Ignored("service_tier"),
      Ignored("safety_identifier"),
      Ignored("prompt_cache_key"),
      Ignored("prompt_cache_retention"),
      Ignored("request_id"),
      Ignored("session_id"),
      Ignored("guided_decoding_backend"),
      // They say how many tokens a chunk has, and what vLLM's endpoints that render a prompt
      // answer.
      Ignored("stream_interval"),
      Ignored("return_token_offsets"),
      Ignored("return_mm_kwargs"),
      // llama.cpp's, about its cache of prompts and its measurements.
      Ignored("cache_prompt"),
      Ignored("timings_per_token"),
      Refused("use_beam_search", "false"),
      Refused("length_penalty", "1.0"),
      Refused("spaces_between_special_tokens", "true"),
      Refused("watermarking", "false"),
      Refused("routed_experts_prompt_start", "0"),
      Refused("typical_p", "1.0"),
      Refused("mirostat", "0"),
  };
}

std::vector<ApiField> CompletionRows() {
  return {
      Read("prompt", "string, list of strings, list of token ids, list of lists of token ids",
           "required",
           "at most 128 prompts; prompts times `n` at most 128. Choice `i * n + j` is prompt i's "
           "j-th"),
      Read("echo", "boolean", "false",
           "the prompt goes before the text; with `logprobs` its tokens too. `max_tokens: 0` "
           "scores a prompt"),
      Read("logprobs", "integer, 0 to 20", "none",
           "`{tokens, token_logprobs, top_logprobs, text_offset}`; false: none"),
      Read("best_of", "integer", "`n`", "must equal `n`"),
      Refused("suffix", "\"\""),
  };
}

std::vector<ApiField> ChatRows() {
  return {
      Read("messages", "list of up to 4,096 [messages](#messages-tools-and-reasoning)", "required",
           "roles `system`, `developer` (becomes `system`), `user`, `assistant`, `tool`; content a "
           "string or parts of type `text`, which are joined by line feeds unless the template "
           "walks over parts"),
      Read("max_completion_tokens", "integer", "", "the newer name of `max_tokens`; wins over it"),
      Read("logprobs", "boolean", "false", "`{content: [{token, logprob, bytes, top_logprobs}]}`"),
      Read("top_logprobs", "integer, 0 to 20", "0", "only with `logprobs`"),
      Read(
          "tools", "list of up to 1,024 functions", "none",
          "`{\"type\": \"function\", \"function\": {\"name\", \"description\", \"parameters\", "
          "...}}`; the template is shown them in the client's own words, whatever the schema says. "
          "Where calls are [bound](structured-output.md#calls) to it, it has to be one"),
      Read(
          "tool_choice", "string or object", "`\"auto\"`",
          "`\"none\"`: nothing is called, and a call that the model writes all the same is text. "
          "`\"required\"`, or a function's name: the answer is [bound](structured-output.md#calls) "
          "to calls"),
      Read("parallel_tool_calls", "boolean", "true", "false: the first call is the only one"),
      Read("include_reasoning", "boolean", "true", "false: reasoning is left out of the answer"),
      Read("chat_template_kwargs", "object", "none",
           "further values for the template, for example `{\"enable_thinking\": false}`"),
      Read("documents", "list of objects", "none",
           "shown to the template; refused where it has no use for them"),
      Read("reasoning_effort", "string", "none",
           "likewise, but for `\"none\"` and `\"auto\"`, which ask for nothing"),
      Read("add_generation_prompt", "boolean", "true", "false beside `continue_final_message`"),
      Read("continue_final_message", "boolean", "false",
           "the answer goes on with the last message's text"),
      Ignored("prediction"),
      Ignored("prompt_cache_options"),
      Refused("function_call", "\"none\""),
      Refused("modalities", "[\"text\"]"),
      Refused("verbosity", "\"medium\""),
      Refused("return_prompt_text", "false"),
      Refused("echo", "false"),
  };
}

// The fields of /v1/responses in OpenAI's openai 3.57 and in vLLM.
std::vector<ApiField> ResponsesRows() {
  return {
      Read("input", "string or list of up to 4,096 [items](#responses)", "required",
           "items of type `message`, `function_call`, `function_call_output`, `reasoning`; texts "
           "alone"),
      Read(
          "instructions", "string", "none",
          "a system message in front, [one](#messages-tools-and-reasoning) with those that the "
          "conversation begins with where the template takes one alone; that of an earlier turn is "
          "not carried over"),
      Read("previous_response_id", "string", "none",
           "the conversation that this [stored](#stored-responses) response ends goes on"),
      Read("store", "boolean", "true", "whether it can be read and gone on from"),
      Read("metadata", "object of up to 16 strings", "none", "is in the answer, too"),
      Read("max_output_tokens", "integer", "the rest of the context",
           "reasoning counts; -1: the rest of the context"),
      Read("stream", "boolean", "false", "server-sent events, numbered, in OpenAI's order"),
      Read("stream_options", "object", "none",
           "`include_obfuscation` is accepted; without `stream` it is ignored"),
      Read("include", "list", "none",
           "`message.output_text.logprobs`; `reasoning.encrypted_content` and what other kinds of "
           "items would have are accepted and without effect"),
      Read("top_logprobs", "integer, 0 to 20", "0", "only with `message.output_text.logprobs`"),
      Read("tools", "list of up to 1,024 functions", "none",
           "`{\"type\": \"function\", \"name\", \"description\", \"parameters\", ...}`; other "
           "types are refused by name"),
      Read("tool_choice", "string", "`\"auto\"`", "as for chats"),
      Read("parallel_tool_calls", "boolean", "true", "false: the first call is the only one"),
      Read("reasoning", "object", "none",
           "`effort` as `reasoning_effort` for chats; `summary`: `\"auto\"` alone, which is none, "
           "since what was thought is in the item's `content`"),
      Read("text", "object", "text",
           "`format`: `{\"type\": \"text\"}`, `{\"type\": \"json_object\"}` or `{\"type\": "
           "\"json_schema\", \"name\", \"schema\", ...}`, to which the answer is "
           "[bound](structured-output.md); `verbosity`: `\"medium\"` alone"),
      Read("skip_special_tokens", "boolean", "true"),
      Read("chat_template_kwargs", "object", "none", "as for chats"),
      Ignored("user"),
      Ignored("service_tier"),
      Ignored("safety_identifier"),
      Ignored("prompt_cache_key"),
      Ignored("prompt_cache_retention"),
      Ignored("prompt_cache_options"),
      Ignored("request_id"),
      // Counts calls of tools that the server runs itself. There are none.
      Ignored("max_tool_calls"),
      Refused("background", "false"),
      Refused("truncation", "\"disabled\""),
      Refused("enable_response_messages", "false"),
  };
}

std::vector<ApiField> EmbeddingRows() {
  return {
      Read("model", "string", "required"),
      Read("adapters", "list of objects", "none", "as for text"),
      Read("input", "string, list of strings, list of token ids, list of lists of token ids",
           "required", "at most 2,048"),
      Read("encoding_format", "string", "`\"float\"`",
           "`\"base64\"`: of the floats' bytes, the lowest first"),
      Read("normalize", "boolean", "true", "to the length 1"),
      Read("add_special_tokens", "boolean", "true"),
      Read("truncate_prompt_tokens", "integer", "none",
           "the last so many tokens of an input; -1: as many as fit"),
      Read("truncation_side", "string", "`\"left\"`", "as for text"),
      Read("cache_salt", "string", "none", "as for text"),
      Read("priority", "integer", "0", "as for text"),
      Ignored("user"),
      Ignored("safety_identifier"),
      Ignored("request_id"),
      Refused("embed_dtype", "\"float32\""),
      Refused("endianness", "\"native\""),
      Refused("use_activation", "true"),
      Refused("padding", "\"do_not_pad\""),
      Refused("add_generation_prompt", "false"),
      Refused("continue_final_message", "false"),
  };
}

std::vector<ApiField> TokenizeRows() {
  return {
      Read("model", "string", "the base model"),
      Read("add_special_tokens", "boolean", "of a text true, of a chat false"),
      Read("return_token_strs", "boolean", "false", "`token_strs` are the tokens' texts"),
  };
}

std::vector<ApiField> TokenizeTextRows() {
  return {Read("prompt", "string", "", "the text; required where there are no `messages`")};
}

std::vector<ApiField> TokenizeChatRows() {
  return {
      Read("messages", "list", "", "in place of `prompt`, as for chats; likewise:"),
      Read("tools", "list of functions", "none"),
      Read("tool_choice", "string or object", "`\"auto\"`"),
      Read("parallel_tool_calls", "boolean", "true"),
      Read("chat_template_kwargs", "object", "none"),
      Read("documents", "list of objects", "none"),
      Read("reasoning_effort", "string", "none"),
      Read("add_generation_prompt", "boolean", "true"),
      Read("continue_final_message", "boolean", "false"),
  };
}

std::vector<ApiField> DetokenizeRows() {
  return {
      Read("model", "string", "the base model"),
      Read("tokens", "list of token ids", "required"),
  };
}

std::vector<ApiField> FineTuningRows() {
  return {
      Read("model", "string", "required", "the base model's name"),
      Read("training_file", "string", "required", "the id of a [file](#files): the document"),
      Read("method", "object", "required",
           "`{\"type\": \"document\", \"document\": {\"hyperparameters\": {...}}}`; other types "
           "are refused by name"),
      Read("suffix", "string of up to 64 letters, digits, `.`, `_`, `-`", "none",
           "is in the model's name: `ft:BASE:SUFFIX:ID`"),
      Read("seed", "integer, 0 to 2147483647", "random", "the same seed learns the same bits"),
      Read("metadata", "object of up to 16 strings", "none", "is in the answer, too"),
      Ignored("user"),
      // Its refusal names the place where they are read.
      Refused("hyperparameters", "{}"),
  };
}

// "1,048,576", "0.5".
std::string NumberText(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.10g", number);
  std::string all = text;
  if (all.find_first_not_of("0123456789") != std::string::npos) return all;
  for (size_t i = all.size(); i > 3; i -= 3) all.insert(i - 3, ",");
  return all;
}

// What may be given for a setting of a method, and what stands where it is not given.
struct SettingText {
  std::string type, initial;
};
SettingText TextOf(const MethodRow& row, int32_t initial) {
  const bool is_own = *row.own != '\0';
  return {"integer, " + NumberText(row.min + (is_own ? 1 : 0)) + " to " + NumberText(row.max),
          is_own ? row.own : NumberText(initial)};
}
SettingText TextOf(const MethodRow& row, double initial) {
  const bool is_own = *row.own != '\0';
  return {"number, " +
              (is_own || row.is_above ? "above " + NumberText(row.min) + ", to "
                                      : NumberText(row.min) + " to ") +
              NumberText(row.max),
          is_own ? row.own : NumberText(initial)};
}
SettingText TextOf(const MethodRow& row, const std::string& initial) {
  if (*row.own != '\0') return {"string", row.own};
  std::string words;
  for (const char* const word : row.words) {
    words += (words.empty() ? "`\"" : ", `\"") + std::string(word) + "\"`";
  }
  return {words, "`\"" + initial + "\"`"};
}
SettingText TextOf(const MethodRow& row, const std::vector<std::string>&) {
  return {"list of up to " + NumberText(row.max) + " ids of files", row.own};
}

// From the rows of jobs/document_method.h; their texts are made once.
const std::vector<ApiField>& HyperparameterRows() {
  static std::deque<SettingText> texts;  // a row points into them
  static const std::vector<ApiField> all = [] {
    std::vector<ApiField> rows;
    const DocumentMethod initial;
    VisitMethod(initial, [&rows](const MethodRow& row, const auto& value) {
      if (*row.field == '\0') return;
      const SettingText& text = texts.emplace_back(TextOf(row, value));
      rows.push_back(Read(row.field, text.type.c_str(), text.initial.c_str(), row.field_help));
    });
    rows.push_back(Refused("hidden_states", "\"none\""));
    return rows;
  }();
  return all;
}

std::vector<ApiField> Joined(std::vector<ApiField> rows, const std::vector<ApiField>& others) {
  rows.insert(rows.end(), others.begin(), others.end());
  return rows;
}

std::vector<ApiField> SharedRows() { return Joined(AnswerRows(), UnusedRows()); }

std::string NameList(const std::vector<ApiField>& rows, FieldUse use) {
  std::string names;
  for (const ApiField& row : rows) {
    if (row.use != use) continue;
    names += (names.empty() ? "`" : ", `") + std::string(row.name) + "`";
    if (use == kRefused) names += ": `" + std::string(row.neutral) + "`";
  }
  return names;
}

std::string Markdown(const std::vector<ApiField>& rows) {
  std::string text = "| field | type | default | |\n|---|---|---|---|\n";
  for (const ApiField& row : rows) {
    if (row.use != FieldUse::kRead) continue;
    text += std::string("| `") + row.name + "` | " + row.type + " | " + row.initial + " | " +
            row.note + (*row.note == '\0' ? "|\n" : " |\n");
  }
  const std::string ignored = NameList(rows, kIgnored);
  if (!ignored.empty()) {
    text += "| " + ignored + " | | | accepted and without effect, since they change no token |\n";
  }
  const std::string refused = NameList(rows, kRefused);
  if (!refused.empty()) {
    text += "| " + refused +
            " | | | refused unless null, empty or of this value, which asks for nothing |\n";
  }
  return text;
}

}  // namespace

const ApiFields& CompletionFields() {
  static const ApiFields fields(Joined(Joined(SamplingRows(), SharedRows()), CompletionRows()));
  return fields;
}

const ApiFields& ChatFields() {
  static const ApiFields fields(Joined(Joined(SamplingRows(), SharedRows()), ChatRows()));
  return fields;
}

const ApiFields& ResponsesFields() {
  static const ApiFields fields(Joined(SamplingRows(), ResponsesRows()));
  return fields;
}

const ApiFields& EmbeddingFields() {
  static const ApiFields fields(EmbeddingRows());
  return fields;
}

const ApiFields& TokenizeTextFields() {
  static const ApiFields fields(Joined(TokenizeRows(), TokenizeTextRows()));
  return fields;
}

const ApiFields& TokenizeChatFields() {
  static const ApiFields fields(Joined(TokenizeRows(), TokenizeChatRows()));
  return fields;
}

const ApiFields& DetokenizeFields() {
  static const ApiFields fields(DetokenizeRows());
  return fields;
}

const ApiFields& FineTuningFields() {
  static const ApiFields fields(FineTuningRows());
  return fields;
}

const ApiFields& HyperparameterFields() {
  static const ApiFields fields(HyperparameterRows());
  return fields;
}

std::string FineTuningFieldsMarkdown() { return Markdown(FineTuningRows()); }
std::string HyperparameterFieldsMarkdown() { return Markdown(HyperparameterRows()); }
std::string TokenizeFieldsMarkdown() {
  return Markdown(Joined(Joined(TokenizeTextRows(), TokenizeChatRows()), TokenizeRows()));
}
std::string DetokenizeFieldsMarkdown() { return Markdown(DetokenizeRows()); }
std::string EmbeddingFieldsMarkdown() { return Markdown(EmbeddingRows()); }
std::string SamplingFieldsMarkdown() { return Markdown(SamplingRows()); }
std::string SharedFieldsMarkdown() { return Markdown(SharedRows()); }
std::string CompletionFieldsMarkdown() { return Markdown(CompletionRows()); }
std::string ChatFieldsMarkdown() { return Markdown(ChatRows()); }
std::string ResponsesFieldsMarkdown() { return Markdown(ResponsesRows()); }

}  // namespace graft
