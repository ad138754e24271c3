// The body of POST /v1/embeddings as values. Pure functions; any thread.
#pragma once

#include <vector>

#include "openai/openai_request.h"

namespace graft {

struct EmbeddingFormat {
  bool is_base64 = false;
  bool is_normalized = true;  // to the length 1
};

struct EmbeddingRequest {
  GenerationParams params;  // nothing is drawn
  std::vector<Prompt> inputs;
  EmbeddingFormat format;
};

ApiResult<EmbeddingRequest> ParseEmbeddingRequest(const Json& body, const RequestLimits& limits);

}  // namespace graft
