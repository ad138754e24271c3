#include "openai/openai_response.h"

#include <algorithm>
#include <cmath>

#include "openai/chat_answer.h"
#include "openai/token_logprobs.h"

namespace graft {
namespace {

const char* StateName(AdapterState state) {
  switch (state) {
    case AdapterState::kUnread:
      return "unread";
    case AdapterState::kFolder:
      return "folder";
    case AdapterState::kHost:
      return "host";
    case AdapterState::kLoading:
      return "loading";
    case AdapterState::kResident:
      return "resident";
  }
  return "";
}

void AppendInteger(int64_t value, std::string* out) { *out += std::to_string(value); }

void AppendUsage(const ResponseUsage& usage, std::string* out) {
  *out += "{\"prompt_tokens\":";
  AppendInteger(usage.prompt_tokens, out);
  *out += ",\"completion_tokens\":";
  AppendInteger(usage.output_tokens, out);
  *out += ",\"total_tokens\":";
  AppendInteger(usage.prompt_tokens + usage.output_tokens, out);
  *out += ",\"prompt_tokens_details\":{\"cached_tokens\":";
  AppendInteger(usage.cached_tokens, out);
  *out += "}}";
}

void AppendFinish(FinishReason finish, bool has_calls, std::string* out) {
  *out += "\"finish_reason\":";
  if (finish == FinishReason::kNone) {
    *out += "null";
  } else {
    *out += std::string("\"") + FinishReasonName(finish, has_calls) + "\"";
  }
}

// A field behind others.
void AppendIds(const char* name, const std::vector<int32_t>& ids, std::string* out) {
  *out += std::string(",\"") + name + "\":[";
  for (size_t i = 0; i < ids.size(); ++i) {
    AppendComma(i, out);
    AppendInteger(ids[i], out);
  }
  *out += ']';
}

}  // namespace

void AppendJsonString(std::string_view text, std::string* out) {
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) {
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
  });
  if (!is_plain) {
    *out += DumpJson(Json(std::string(text)));
    return;
  }
  *out += '"';
  *out += text;
  *out += '"';
}

const char* FinishReasonName(FinishReason finish, bool has_calls) {
  if (finish == FinishReason::kLength) return "length";
  return has_calls ? "tool_calls" : "stop";
}

ResponseWriter::ResponseWriter(const Tokenizer& tokenizer, ResponseHead head)
    : tokenizer_(tokenizer), head_(std::move(head)) {
  chunk_prefix_ = "data: {\"id\":";
  AppendJsonString(head_.id, &chunk_prefix_);
  chunk_prefix_ += head_.is_chat ? ",\"object\":\"chat.completion.chunk\",\"created\":"
                                 : ",\"object\":\"text_completion\",\"created\":";
  AppendInteger(head_.created, &chunk_prefix_);
  chunk_prefix_ += ",\"model\":";
  AppendJsonString(head_.model, &chunk_prefix_);
  chunk_prefix_ += ",\"choices\":[";
}

void ResponseWriter::AppendEvent(std::string_view choice, std::string* out,
                                 std::string_view more) const {
  *out += chunk_prefix_;
  *out += choice;
  *out += ']';
  *out += more;
  if (head_.continuous_usage) {
    *out += ",\"usage\":";
    AppendUsage(usage_, out);
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
  std::string choice = head + "{},\"logprobs\":null,";
  AppendFinish(finish, piece.has_calls, &choice);
  AppendEvent(choice + "}", out);
}

void ResponseWriter::AppendTextChoice(int32_t idx, const ChoicePiece& piece, FinishReason finish,
                                      std::string* out) const {
  *out += "{\"index\":";
  AppendInteger(idx, out);
  *out += ",\"text\":";
  AppendJsonString(piece.text, out);
  *out += ",\"logprobs\":";
  AppendLogprobs(piece, out);
  *out += ',';
  AppendFinish(finish, /*has_calls=*/false, out);
  AppendTokenIds(piece, out);
  if (!piece.prompt_token_ids.empty()) AppendIds("prompt_token_ids", piece.prompt_token_ids, out);
  *out += '}';
}

void ResponseWriter::AppendEnd(const ResponseUsage& usage, std::string* out) {
  if (head_.include_usage) {
    *out += chunk_prefix_ + "],\"usage\":";
    AppendUsage(usage, out);
    *out += "}\n\n";
  }
  *out += "data: [DONE]\n\n";
}

void ResponseWriter::AppendError(const ApiError& error, std::string* out) {
  *out += "data: " + DumpJson(error.ToJson()) + "\n\n";
}

std::string ResponseWriter::Body(std::vector<ChoicePiece> pieces,
                                 const std::vector<FinishReason>& finishes,
                                 const ResponseUsage& usage) {
  std::string body = "{\"id\":";
  AppendJsonString(head_.id, &body);
  body += head_.is_chat ? ",\"object\":\"chat.completion\",\"created\":"
                        : ",\"object\":\"text_completion\",\"created\":";
  AppendInteger(head_.created, &body);
  body += ",\"model\":";
  AppendJsonString(head_.model, &body);
  body += ",\"choices\":[";
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
      body += "{\"index\":" + std::to_string(idx) + ",\"message\":";
      AppendChatMessage(pieces[i], head_.short_call_ids, &body);
      body += ",\"logprobs\":";
      AppendLogprobs(pieces[i], &body);
      body += ',';
      AppendFinish(finishes[i], pieces[i].has_calls, &body);
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
  body += ",\"usage\":";
  AppendUsage(usage, &body);
  return body + "}";
}

void ResponseWriter::AppendTokenIds(const ChoicePiece& piece, std::string* out) const {
  if (head_.returns_token_ids) AppendIds("token_ids", piece.token_ids, out);
}

void ResponseWriter::AppendLogprobs(const ChoicePiece& piece, std::string* out) const {
  if (!head_.logprobs) {
    *out += "null";
  } else if (head_.is_chat) {
    AppendChatLogprobs(piece, out);
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
    AppendJsonString(TokenName(tokenizer_, entry.chosen.token, head_.shows_token_ids), out);
    AppendComma(i, &logprobs);
    AppendLogprob(entry.chosen.logprob, &logprobs);
    AppendComma(i, &offsets);
    AppendInteger(entry.text_offset, &offsets);
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
      AppendJsonString(text, &tops);
      tops += ':';
      AppendLogprob(token.logprob, &tops);
      seen.push_back(std::move(text));
    }
    tops += '}';
  }
  *out += "],\"token_logprobs\":[" + logprobs + "],\"top_logprobs\":[" + tops +
          "],\"text_offset\":[" + offsets + "]}";
}

void ResponseWriter::AppendChatLogprobs(const ChoicePiece& piece, std::string* out) const {
  *out += "{\"content\":[";
  AppendTokenLogprobs(tokenizer_, piece, head_.shows_token_ids, out);
  *out += "],\"refusal\":null}";
}

namespace {

// The fields that all models' entries have, up to their ends.
void AppendModel(const std::string& name, int64_t created, const std::string& root,
                 int32_t context_tokens_max, std::string* out) {
  *out += "{\"id\":";
  AppendJsonString(name, out);
  *out += ",\"object\":\"model\",\"created\":";
  AppendInteger(created, out);
  *out += ",\"owned_by\":\"graft\",\"root\":";
  AppendJsonString(root, out);
  *out += ",\"max_model_len\":";
  AppendInteger(context_tokens_max, out);
  *out += ",\"parent\":";
}

void AppendStringOrNull(const std::string& text, std::string* out) {
  if (text.empty()) {
    *out += "null";
  } else {
    AppendJsonString(text, out);
  }
}

}  // namespace

void AppendBaseModel(const std::string& name, int64_t created, int32_t context_tokens_max,
                     std::string* out) {
  AppendModel(name, created, name, context_tokens_max, out);
  *out += "null}";
}

namespace {

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

void AppendAdapterModel(const AdapterInfo& adapter, AdapterState state,
                        const std::string& base_model, int32_t context_tokens_max, bool with_tenant,
                        std::string* out) {
  AppendModel(adapter.name, adapter.loaded_at, base_model, context_tokens_max, out);
  AppendJsonString(base_model, out);
  // The facts of an unread adapter are not known.
  const bool is_known = !adapter.hash.empty();
  *out += ",\"hash\":";
  AppendStringOrNull(adapter.hash, out);
  // An adapter has LoRA, virtual tokens, or both: what it has not is null.
  const auto count = [&](int32_t value) {
    return is_known && value > 0 ? std::to_string(value) : "null";
  };
  *out += ",\"rank\":" + count(adapter.rank_max);
  *out += ",\"virtual_tokens\":" + count(adapter.num_virtual_tokens);
  *out += ",\"bytes\":" + (is_known ? std::to_string(adapter.bytes) : "null");
  *out += std::string(",\"state\":\"") + StateName(state) + "\"";
  AppendAdapterText(adapter.text, out);
  if (with_tenant) {
    *out += ",\"tenant\":";
    AppendStringOrNull(adapter.tenant, out);
  }
  *out += '}';
}

}  // namespace graft
