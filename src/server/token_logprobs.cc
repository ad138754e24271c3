#include "server/token_logprobs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "server/openai_response.h"
#include "text/utf8.h"

namespace graft {
namespace {

// OpenAI writes this for tokens that cannot come.
constexpr float kLogprobMin = -9999.0f;

void AppendTokenFields(const Tokenizer& tokenizer, const TokenLogprob& token, bool shows_id,
                       std::string* out) {
  const std::string bytes = tokenizer.TokenBytes(token.token);
  *out += "\"token\":";
  AppendJsonString(shows_id ? TokenName(tokenizer, token.token, shows_id) : bytes, out);
  *out += ",\"logprob\":";
  AppendLogprob(token.logprob, out);
  *out += ",\"bytes\":[";
  for (size_t i = 0; i < bytes.size(); ++i) {
    AppendComma(i, out);
    *out += std::to_string(static_cast<unsigned char>(bytes[i]));
  }
  *out += ']';
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

}  // namespace graft
