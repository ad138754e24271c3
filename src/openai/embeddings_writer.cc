#include "openai/embeddings_writer.h"

#include <charconv>
#include <cmath>

#include "base/check.h"
#include "openai/openai_response.h"
#include "openai/token_logprobs.h"

namespace graft {
namespace {

void AppendFloats(std::span<const float> vector, std::string* out) {
  char digits[32];
  *out += '[';
  for (size_t i = 0; i < vector.size(); ++i) {
    AppendComma(i, out);
    out->append(digits, std::to_chars(digits, digits + sizeof(digits), vector[i]).ptr);
  }
  *out += ']';
}

}  // namespace

void Normalize(std::span<float> vector) {
  double sum = 0.0;
  for (const float x : vector) sum += static_cast<double>(x) * x;
  if (sum == 0.0) return;
  const double scale = 1.0 / std::sqrt(sum);
  for (float& x : vector) x = static_cast<float>(x * scale);
}

std::string Base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) {
      word = word << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      text += k <= count ? kDigits[word >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

void EmbeddingsWriter::AppendBeginning(int32_t /*idx*/, std::string* /*out*/) {
  CHECK(false) << "embeddings do not stream";
}

void EmbeddingsWriter::AppendChunk(int32_t /*idx*/, const ChoicePiece& /*piece*/,
                                   FinishReason /*finish*/, std::string* /*out*/) {
  CHECK(false) << "embeddings do not stream";
}

void EmbeddingsWriter::AppendEnd(const ResponseUsage& /*usage*/, std::string* /*out*/) {
  CHECK(false) << "embeddings do not stream";
}

void EmbeddingsWriter::AppendError(const ApiError& /*error*/, std::string* /*out*/) {
  CHECK(false) << "embeddings do not stream";
}

std::string EmbeddingsWriter::Body(std::vector<ChoicePiece> pieces,
                                   const std::vector<FinishReason>& /*finishes*/,
                                   const ResponseUsage& usage) {
  std::string body = "{\"object\":\"list\",\"data\":[";
  for (size_t i = 0; i < pieces.size(); ++i) {
    AppendComma(i, &body);
    std::vector<float>& vector = pieces[i].embedding;
    if (format_.is_normalized) Normalize(vector);
    body += "{\"object\":\"embedding\",\"index\":" + std::to_string(i) + ",\"embedding\":";
    if (format_.is_base64) {
      const std::span<const std::byte> bytes = std::as_bytes(std::span(vector));
      body += '"' + Base64({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) + '"';
    } else {
      AppendFloats(vector, &body);
    }
    body += '}';
    pieces[i] = ChoicePiece();
  }
  body += "],\"model\":";
  AppendJsonString(model_, &body);
  const std::string tokens = std::to_string(usage.prompt_tokens);
  return body + ",\"usage\":{\"prompt_tokens\":" + tokens + ",\"total_tokens\":" + tokens + "}}";
}

}  // namespace graft
