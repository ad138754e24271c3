#include "openai/token_logprobs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>

#include "base/json.h"
#include "text/utf8.h"

namespace graft {
namespace {

// OpenAI writes this for tokens that cannot come.
constexpr float kLogprobMin = -9999.0f;

void AppendTokenFields(const Tokenizer& tokenizer, const TokenLogprob& token, bool shows_id,
                       std::string* out) {
  const std::string bytes = tokenizer.TokenBytes(token.token);
  *out +=
      "\"token\":" + JsonString(shows_id ? TokenName(tokenizer, token.token, shows_id) : bytes) +
      ",\"logprob\":";
  AppendLogprob(token.logprob, out);
  *out += ",\"bytes\":[";
  for (size_t i = 0; i < bytes.size(); ++i) {
    AppendComma(i, out);
    *out += std::to_string(static_cast<unsigned char>(bytes[i]));
  }
  *out += ']';
}

void AppendRanked(const Tokenizer& tokenizer, const TokenLogprob& token, int32_t rank,
                  std::string* out) {
  *out += "\"" + std::to_string(token.token) + "\":{\"logprob\":";
  AppendLogprob(token.logprob, out);
  *out += ",\"rank\":" + (rank > 0 ? std::to_string(rank) : "null") + ",\"decoded_token\":" +
          JsonString(CompletionTokenText(tokenizer.TokenBytes(token.token))) + '}';
}

}  // namespace

void AppendComma(size_t idx, std::string* out) {
  if (idx > 0) *out += ',';
}

void AppendLogprob(float logprob, std::string* out) {
  if (std::isnan(logprob)) {
    *out += "null";
    return;
  }
  char digits[32];
  const float clamped = std::max(logprob, kLogprobMin);
  const auto end = std::to_chars(digits, digits + sizeof(digits), clamped);
  out->append(digits, end.ptr);
}

std::string CompletionTokenText(const std::string& bytes) {
  if (IsValidUtf8(bytes)) return bytes;
  std::string text = "bytes:";
  char digits[8];
  for (const char c : bytes) {
    std::snprintf(digits, sizeof(digits), "\\x%02x", static_cast<unsigned char>(c));
    text += digits;
  }
  return text;
}

std::string TokenName(const Tokenizer& tokenizer, int32_t token, bool shows_id) {
  if (shows_id) return "token_id:" + std::to_string(token);
  return CompletionTokenText(tokenizer.TokenBytes(token));
}

void AppendTokenLogprobs(const Tokenizer& tokenizer, const ChoicePiece& piece, bool shows_ids,
                         std::string* out) {
  const TokenLogprob* top = piece.tops.data();
  for (size_t i = 0; i < piece.logprobs.size(); ++i) {
    AppendComma(i, out);
    *out += '{';
    AppendTokenFields(tokenizer, piece.logprobs[i].chosen, shows_ids, out);
    *out += ",\"top_logprobs\":[";
    for (int32_t j = 0; j < piece.logprobs[i].num_top; ++j) {
      AppendComma(static_cast<size_t>(j), out);
      *out += '{';
      AppendTokenFields(tokenizer, *top++, shows_ids, out);
      *out += '}';
    }
    *out += "]}";
  }
}

void AppendPromptLogprobs(const Tokenizer& tokenizer, const ChoicePiece& piece, std::string* out) {
  *out += '[';
  const TokenLogprob* next = piece.prompt_tops.data();
  for (size_t i = 0; i < piece.prompt_logprobs.size(); ++i) {
    const TokenLogprob& chosen = piece.prompt_logprobs[i].chosen;
    const std::span<const TokenLogprob> tops(next,
                                             static_cast<size_t>(piece.prompt_logprobs[i].num_top));
    next += tops.size();
    AppendComma(i, out);
    if (std::isnan(chosen.logprob)) {
      *out += "null";
      continue;
    }
    const auto is_chosen = [&](const TokenLogprob& one) { return one.token == chosen.token; };
    const auto found = std::find_if(tops.begin(), tops.end(), is_chosen);
    const auto own_rank = static_cast<int32_t>(found - tops.begin()) + 1;
    *out += '{';
    AppendRanked(tokenizer, chosen, found == tops.end() ? 0 : own_rank, out);
    for (size_t j = 0; j < tops.size(); ++j) {
      if (is_chosen(tops[j])) continue;
      *out += ',';
      AppendRanked(tokenizer, tops[j], static_cast<int32_t>(j) + 1, out);
    }
    *out += '}';
  }
  *out += ']';
}

}  // namespace graft
