// TrainedPrompt: virtual tokens while they learn: embeddings in front of a sequence's own (prompt
// tuning), or keys and values of every layer (prefix tuning, Cartridges). The first row of keys and
// values never moves, because the attention of all rows rests on it. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "adapters/prompt_config.h"
#include "adapters/virtual_tokens.h"
#include "base/status.h"
#include "learn/trained_numbers.h"
#include "model/config.h"

namespace graft {

class TrainedPrompt : public TrainedNumbers {
 public:
  // `dtype` is the model's weights'; `device` computes with the tokens.
  TrainedPrompt(const ModelConfig& config, VirtualTokenKind kind, int32_t num_tokens, DType dtype,
                const Device& device = {});

  // The memory that one takes.
  static TrainedSize SizeOf(const ModelConfig& config, VirtualTokenKind kind, int32_t num_tokens,
                            DType dtype, const Device& device);
  static int64_t BytesFor(const ModelConfig& config, VirtualTokenKind kind, int32_t num_tokens,
                          DType dtype);

  // Takes numbers that were loaded in fp32. kInvalidArgument for another kind or number of tokens.
  Status Read(const VirtualTokens& tokens);
  void Refresh() override;

  VirtualTokenKind kind() const { return kind_; }
  int32_t num_tokens() const { return num_tokens_; }
  // parameters() is [num_tokens, columns]. A row has hidden_size columns, or
  // [num_layers][2 (k, v)][num_kv_heads][head_dim].
  int64_t columns() const { return columns_; }
  int64_t layer_columns() const { return layer_columns_; }
  // The first numbers of parameters(), which are never moved.
  int64_t num_frozen() const { return kind_ == VirtualTokenKind::kKeysValues ? columns_ : 0; }

  // A layer's rounded keys and values. Its positions are `columns` apart.
  const float* rounded(int32_t layer) const { return rounded_.data() + layer * layer_columns_; }

 private:
  const VirtualTokenKind kind_;
  const int32_t num_tokens_;
  const int64_t layer_columns_;  // of a row, in one layer
  const int64_t columns_;
  std::vector<float> rounded_;  // [num_tokens, columns], for keys and values only
};

}  // namespace graft
