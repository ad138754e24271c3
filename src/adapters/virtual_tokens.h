// A prompt- or prefix-tuning adapter's vectors as pages hold them: a row per virtual token, aligned
// to 64 bytes. Embeddings are [hidden_size] in the dtype of the table of embeddings. Keys and
// values are [num_layers][2][num_kv_heads][head_dim] in that of the KV pages, without rotation:
// PEFT puts them into the cache as they are. Immutable once made, any thread.
#pragma once

#include <cstdint>
#include <span>

#include "adapters/prompt_config.h"
#include "base/status.h"
#include "layers/served_types.h"
#include "model/config.h"
#include "model/safetensors.h"
#include "tensor/buffer.h"

namespace graft {

class VirtualTokens {
 public:
  // Strict: the file holds "prompt_embeddings" alone, in exactly the shape that config and model
  // give, with finite values. kInvalidArgument names what is wrong.
  static Result<VirtualTokens> Load(const SafetensorsFile& file, const PromptConfig& prompt,
                                    const ModelConfig& model, const ServedTypes& types);

  // The same as those with these rows, [num_tokens] of `row_bytes` each.
  static VirtualTokens CopyOf(VirtualTokenKind kind, int64_t row_bytes,
                              std::span<const void* const> rows);

  VirtualTokenKind kind() const { return kind_; }
  int32_t num_tokens() const { return num_tokens_; }
  int64_t row_bytes() const { return row_bytes_; }  // from one row to the next
  // [num_tokens] rows, one after the other.
  const Buffer& buffer() const { return buffer_; }

 private:
  VirtualTokens() = default;

  VirtualTokenKind kind_ = VirtualTokenKind::kEmbedding;
  int32_t num_tokens_ = 0;
  int64_t row_bytes_ = 0;
  Buffer buffer_;
};

}  // namespace graft
