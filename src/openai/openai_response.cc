#include "openai/openai_response.h"

#include <algorithm>
#include <cmath>

#include "openai/chat_answer.h"
#include "openai/token_logprobs.h"

namespace graft {
namespace {

std::string UsageJson(const ResponseUsage& usage) {
  return "{\"prompt_tokens\":" + std::to_string(usage.prompt_tokens) +
         ",\"completion_tokens\":" + std::to_string(usage.output_tokens) +
         ",\"total_tokens\":" + std::to_string(usage.prompt_tokens + usage.output_tokens) +
         ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(usage.cached_tokens) +
         "}}";
}

// By OpenAI's words.
std::string FinishField(FinishReason finish, bool has_calls) {
  const char* const word = finish == FinishReason::kNone     ? "null"
                           : finish == FinishReason::kLength ? "\"length\""
                           : has_calls                       ? "\"tool_calls\""
                                                             : "\"stop\"";
  return std::string("\"finish_reason\":") + word;
}

// A field behind others.
void AppendIds(const char* name, const std::vector<int32_t>& ids, std::string* out) {
  *out += std::string(",\"") + name + "\":[";
  for (size_t i = 0; i < ids.size(); ++i) {
    AppendComma(i, out);
    *out += std::to_string(ids[i]);
  }
  *out += ']';
}

}  // namespace

ResponseWriter::ResponseWriter(const Tokenizer& tokenizer, ResponseHead head)
    : tokenizer_(tokenizer),
      head_(std::move(head)),
      chunk_prefix_("data: " +
                    Beginning(head_.is_chat ? "chat.completion.chunk" : "text_completion")) {}

std::string ResponseWriter::Beginning(const char* object) const {
  return "{\"id\":" + JsonString(head_.id) + ",\"object\":\"" + object +
         "\",\"created\":" + std::to_string(head_.created) +
         ",\"model\":" + JsonString(head_.model) + ",\"choices\":[";
}

void ResponseWriter::AppendEvent(std::string_view choice, std::string* out,
                                 std::string_view more) const {
  *out += chunk_prefix_;
  *out += choice;
  *out += ']';
  *out += more;
  if (head_.continuous_usage) {
    *out += ",\"usage\":" + UsageJson(usage_);
  } else if (head_.include_usage) {
    *out += ",\"usage\":null";
  }
  *out += "}\n\n";
}

void ResponseWriter::AppendBeginning(int32_t idx, std::string* out) {
  if (!head_.is_chat) return;
  AppendEvent("{\"index\":" + std::to_string(idx) +
                  ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                  "\"finish_reason\":null}",
              out);
}

void ResponseWriter::AppendChunk(int32_t idx, const ChoicePiece& piece, FinishReason finish,
                                 std::string* out) {
  if (head_.is_chat) return AppendChatChunks(idx, piece, finish, out);
  const bool has_piece = !piece.text.empty() || !piece.logprobs.empty() || !piece.token_ids.empty();
  if (!has_piece && finish == FinishReason::kNone) return;
  std::string choice;
  AppendTextChoice(idx, piece, finish, &choice);
  AppendEvent(choice, out);
}

// The tokens and their log-probabilities are those of the first delta, whatever part they belong
// to.
void ResponseWriter::AppendChatChunks(int32_t idx, const ChoicePiece& piece, FinishReason finish,
                                      std::string* out) const {
  std::vector<std::string> deltas = ChatDeltas(piece, head_.short_call_ids);
  const bool has_tokens = !piece.logprobs.empty() || !piece.token_ids.empty();
  if (deltas.empty() && has_tokens) deltas.emplace_back("{\"content\":\"\"}");
  std::string of_prompt;
  if (idx == 0 && !piece.prompt_token_ids.empty()) {
    AppendIds("prompt_token_ids", piece.prompt_token_ids, &of_prompt);
  }
  const std::string head = "{\"index\":" + std::to_string(idx) + ",\"delta\":";
  for (size_t i = 0; i < deltas.size(); ++i) {
    std::string choice = head + deltas[i] + ",\"logprobs\":";
    if (i == 0) {
      AppendLogprobs(piece, &choice);
      AppendTokenIds(piece, &choice);
    } else {
      choice += "null";
    }
    AppendEvent(choice + ",\"finish_reason\":null}", out, i == 0 ? of_prompt : "");
  }
  if (finish == FinishReason::kNone) return;
  AppendEvent(head + "{},\"logprobs\":null," + FinishField(finish, piece.has_calls) + "}", out);
}

void ResponseWriter::AppendTextChoice(int32_t idx, const ChoicePiece& piece, FinishReason finish,
                                      std::string* out) const {
  *out += "{\"index\":" + std::to_string(idx) + ",\"text\":" + JsonString(piece.text) +
          ",\"logprobs\":";
  AppendLogprobs(piece, out);
  *out += ',' + FinishField(finish, /*has_calls=*/false);
  AppendTokenIds(piece, out);
  if (!piece.prompt_token_ids.empty()) AppendIds("prompt_token_ids", piece.prompt_token_ids, out);
  *out += '}';
}

void ResponseWriter::AppendEnd(const ResponseUsage& usage, std::string* out) {
  if (head_.include_usage) *out += chunk_prefix_ + "],\"usage\":" + UsageJson(usage) + "}\n\n";
  *out += "data: [DONE]\n\n";
}

void ResponseWriter::AppendError(const ApiError& error, std::string* out) {
  *out += "data: " + DumpJson(error.ToJson()) + "\n\n";
}

std::string ResponseWriter::Body(std::vector<ChoicePiece> pieces,
                                 const std::vector<FinishReason>& finishes,
                                 const ResponseUsage& usage) {
  std::string body = Beginning(head_.is_chat ? "chat.completion" : "text_completion");
  std::string prompt_logprobs, prompt_ids;  // a chat has them once
  if (head_.is_chat && head_.returns_token_ids && !pieces.empty()) {
    AppendIds("prompt_token_ids", pieces[0].prompt_token_ids, &prompt_ids);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    AppendComma(i, &body);
    if (head_.prompt_logprobs && (i == 0 || !head_.is_chat)) {
      prompt_logprobs = ",\"prompt_logprobs\":";
      AppendPromptLogprobs(tokenizer_, pieces[i], &prompt_logprobs);
    }
    const auto idx = static_cast<int32_t>(i);
    if (head_.is_chat) {
      body += "{\"index\":" + std::to_string(idx) +
              ",\"message\":" + ChatMessage(pieces[i], head_.short_call_ids) + ",\"logprobs\":";
      AppendLogprobs(pieces[i], &body);
      body += ',' + FinishField(finishes[i], pieces[i].has_calls);
      AppendTokenIds(pieces[i], &body);
      body += '}';
    } else {
      AppendTextChoice(idx, pieces[i], finishes[i], &body);
      if (head_.prompt_logprobs) body.insert(body.size() - 1, prompt_logprobs);
    }
    pieces[i] = ChoicePiece();
  }
  body += ']';
  if (head_.is_chat) body += prompt_logprobs + prompt_ids;
  return body + ",\"usage\":" + UsageJson(usage) + "}";
}

void ResponseWriter::AppendTokenIds(const ChoicePiece& piece, std::string* out) const {
  if (head_.returns_token_ids) AppendIds("token_ids", piece.token_ids, out);
}

void ResponseWriter::AppendLogprobs(const ChoicePiece& piece, std::string* out) const {
  if (!head_.logprobs) {
    *out += "null";
  } else if (head_.is_chat) {
    *out += "{\"content\":[";
    AppendTokenLogprobs(tokenizer_, piece, head_.shows_token_ids, out);
    *out += "],\"refusal\":null}";
  } else {
    AppendCompletionLogprobs(piece, out);
  }
}

void ResponseWriter::AppendCompletionLogprobs(const ChoicePiece& piece, std::string* out) const {
  std::string logprobs, tops, offsets;
  *out += "{\"tokens\":[";
  const TokenLogprob* top = piece.tops.data();
  for (size_t i = 0; i < piece.logprobs.size(); ++i) {
    const ChoiceLogprob& entry = piece.logprobs[i];
    std::vector<TokenLogprob> all(top, top + entry.num_top);
    top += entry.num_top;
    AppendComma(i, out);
    *out += JsonString(TokenName(tokenizer_, entry.chosen.token, head_.shows_token_ids));
    AppendComma(i, &logprobs);
    AppendLogprob(entry.chosen.logprob, &logprobs);
    AppendComma(i, &offsets);
    offsets += std::to_string(entry.text_offset);
    AppendComma(i, &tops);
    if (std::isnan(entry.chosen.logprob)) {
      tops += "null";
      continue;
    }
    // A dictionary: of tokens that read the same the likeliest, which comes first, is kept; the
    // chosen token is always in it.
    std::vector<std::string> seen;
    all.push_back(entry.chosen);
    tops += '{';
    for (const TokenLogprob& token : all) {
      std::string text = TokenName(tokenizer_, token.token, head_.shows_token_ids);
      if (std::find(seen.begin(), seen.end(), text) != seen.end()) continue;
      AppendComma(seen.size(), &tops);
      tops += JsonString(text) + ':';
      AppendLogprob(token.logprob, &tops);
      seen.push_back(std::move(text));
    }
    tops += '}';
  }
  *out += "],\"token_logprobs\":[" + logprobs + "],\"top_logprobs\":[" + tops +
          "],\"text_offset\":[" + offsets + "]}";
}

namespace {

// The fields that all models' entries have, up to their ends.
std::string ModelFields(const std::string& name, int64_t created, const std::string& root,
                        int32_t context_tokens_max) {
  return "{\"id\":" + JsonString(name) +
         ",\"object\":\"model\",\"created\":" + std::to_string(created) +
         ",\"owned_by\":\"graft\",\"root\":" + JsonString(root) +
         ",\"max_model_len\":" + std::to_string(context_tokens_max) + ",\"parent\":";
}

std::string StringOrNull(const std::string& text) {
  return text.empty() ? "null" : JsonString(text);
}

// Whether it brings a chat template, and which tokens end its answers beside the base's.
void AppendAdapterText(const AdapterTextPtr& text, std::string* out) {
  const bool has_template = text != nullptr && text->brings_template();
  *out += std::string(R"(,"chat_template":)") + (has_template ? R"("adapter")" : R"("base")");
  *out += R"(,"stop_token_ids":[)";
  const char* comma = "";
  for (const int32_t token : text == nullptr ? std::vector<int32_t>() : text->stop_token_ids) {
    *out += std::exchange(comma, ",") + std::to_string(token);
  }
  *out += ']';
}

}  // namespace

void AppendBaseModel(const std::string& name, const std::string& revision, int64_t created,
                     int32_t context_tokens_max, std::string* out) {
  *out += ModelFields(name, created, name, context_tokens_max) + "null";
  if (!revision.empty()) *out += ",\"revision\":" + JsonString(revision);
  *out += '}';
}

void AppendAdapterModel(const AdapterInfo& adapter, AdapterState state,
                        const std::string& base_model, int32_t context_tokens_max, bool with_tenant,
                        std::string* out) {
  // The facts of an unread adapter are not known.
  const bool is_known = !adapter.hash.empty();
  *out += ModelFields(adapter.name, adapter.loaded_at, base_model, context_tokens_max) +
          JsonString(base_model) + ",\"hash\":" + StringOrNull(adapter.hash);
  // An adapter has LoRA, virtual tokens, or both: what it has not is null.
  const auto count = [&](int32_t value) {
    return is_known && value > 0 ? std::to_string(value) : "null";
  };
  *out += ",\"rank\":" + count(adapter.rank_max);
  *out += ",\"virtual_tokens\":" + count(adapter.num_virtual_tokens);
  *out += ",\"bytes\":" + (is_known ? std::to_string(adapter.bytes) : "null");
  *out += std::string(",\"state\":\"") + AdapterStateName(state) + "\"";
  if (!adapter.left_out.empty()) *out += ",\"left_out\":" + JsonString(adapter.left_out);
  if (!adapter.revision.empty()) *out += ",\"revision\":" + JsonString(adapter.revision);
  AppendAdapterText(adapter.text, out);
  if (with_tenant) *out += ",\"tenant\":" + StringOrNull(adapter.tenant);
  *out += '}';
}

}  // namespace graft
