#include "openai/embedding_request.h"

#include "http/field_reader.h"
#include "openai/api_fields.h"

namespace graft {

ApiResult<EmbeddingRequest> ParseEmbeddingRequest(const Json& body, const RequestLimits& limits) {
  EmbeddingRequest request;
  GenerationParams& params = request.params;
  params.tokens_max = 0;
  FieldReader reader(body, "", &EmbeddingFields());
  reader.String("model", &params.model, kNameBytesMax);
  if (params.model.empty()) {
    reader.Fail("model", "is required: the base model's name or an adapter's, see /v1/models");
  }
  ReadAdapterShares(reader, &params.adapters);
  ReadPrompts(reader, "input", limits.inputs_max, limits, &request.inputs);
  if (reader.Take("encoding_format") != nullptr) {
    request.format.is_base64 = reader.OneOf("encoding_format", {"float", "base64"}) == "base64";
  }
  reader.Bool("normalize", &request.format.is_normalized);
  reader.OptionalBool("add_special_tokens", &params.add_special_tokens);
  ReadTruncation(reader, &params);
  reader.String("cache_salt", &params.cache_salt, kNameBytesMax);
  reader.Int("priority", -kInt32Max, kInt32Max, &params.priority);
  reader.TakeUnread();
  if (auto error = reader.Finish()) return *error;
  return request;
}

}  // namespace graft
