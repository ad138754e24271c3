#include "openai/embeddings_writer.h"

#include <openssl/evp.h>

#include <charconv>
#include <cmath>

#include "base/json.h"
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
  std::string text((bytes.size() + 2) / 3 * 4, '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  return text;
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
  const std::string tokens = std::to_string(usage.prompt_tokens);
  return body + "],\"model\":" + JsonString(model_) + ",\"usage\":{\"prompt_tokens\":" + tokens +
         ",\"total_tokens\":" + tokens + "}}";
}

}  // namespace graft
