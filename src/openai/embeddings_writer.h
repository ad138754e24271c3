// The answer of /v1/embeddings, which does not stream. One thread at a time.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "openai/answer_writer.h"
#include "openai/embedding_request.h"

namespace graft {

class EmbeddingsWriter : public AnswerWriter {
 public:
  EmbeddingsWriter(std::string model, EmbeddingFormat format)
      : model_(std::move(model)), format_(format) {}

  std::string Body(std::vector<ChoicePiece> pieces, const std::vector<FinishReason>& finishes,
                   const ResponseUsage& usage) override;

 private:
  const std::string model_;
  const EmbeddingFormat format_;
};

// Scales a vector to the length 1; one of zeros stays.
void Normalize(std::span<float> vector);

// RFC 4648's alphabet, with padding.
std::string Base64(std::string_view bytes);

}  // namespace graft
