// TrainedPrompt: virtual tokens while they learn: embeddings that stand in front of a sequence's
// own (prompt tuning), or keys and values of every layer (prefix tuning, Cartridges). Masters,
// gradients and moments are fp32; what training computes with is rounded as a server rounds the
// file. The first row of keys and values is never moved: the attention of all rows rests on it. In
// the host's memory; a GPU that trains has its own (TrainingDevice). One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "adapters/prompt_config.h"
#include "adapters/virtual_tokens.h"
#include "base/status.h"
#include "kernels/common/virtual_rows.h"
#include "model/config.h"
#include "tensor/buffer.h"

namespace graft {

class TrainedPrompt {
 public:
  // `dtype` of the model's weights; `device` of what computes with it.
  TrainedPrompt(const ModelConfig& config, VirtualTokenKind kind, int32_t num_tokens, DType dtype,
                const Device& device = {});

  // What one takes in all.
  static int64_t BytesFor(const ModelConfig& config, VirtualTokenKind kind, int32_t num_tokens,
                          DType dtype);

  // The numbers of a prompt that was loaded in fp32. kInvalidArgument where it has another kind or
  // number of tokens.
  Status Read(const VirtualTokens& tokens);
  // Rounds the masters to what training computes with. After every change of parameters(), of which
  // version() counts those that were told here: what another device has of them is out of date.
  void Refresh();
  int64_t version() const { return version_; }
  void ZeroGradients();

  VirtualTokenKind kind() const { return kind_; }
  int32_t num_tokens() const { return num_tokens_; }
  // Of a row: hidden_size, or [num_layers][2 (k, v)][num_kv_heads][head_dim].
  int64_t columns() const { return columns_; }
  DType dtype() const { return dtype_; }  // of what training computes with
  // [num_tokens, columns] masters and, in the same order, their gradients and moments.
  std::span<float> parameters() { return parameters_; }
  std::span<float> gradients() { return gradients_; }
  std::span<float> first_moments() { return first_moments_; }
  std::span<float> second_moments() { return second_moments_; }
  // Where what is moved begins in these.
  int64_t num_frozen() const { return kind_ == VirtualTokenKind::kKeysValues ? columns_ : 0; }

  // [num_tokens] rows as VirtualEmbedding takes them, or VirtualKv with a layout of one layer.
  VirtualRows rows(int32_t layer) const {
    return rows_.data() + static_cast<int64_t>(layer) * num_tokens_;
  }
  // The keys and values of a layer as they were rounded, positions `columns` apart.
  const float* rounded(int32_t layer) const { return rounded_.data() + layer * layer_columns_; }
  int64_t layer_columns() const { return layer_columns_; }

 private:
  const VirtualTokenKind kind_;
  const int32_t num_tokens_;
  int64_t layer_columns_;  // of a row, in one layer
  int32_t num_layers_;     // 1 of embeddings
  int64_t columns_;
  DType dtype_;
  int64_t version_ = 0;
  std::vector<float> parameters_;
  std::vector<float> gradients_;
  std::vector<float> first_moments_;
  std::vector<float> second_moments_;
  std::vector<float> rounded_;     // [num_tokens, columns], of keys and values alone
  Buffer copy_;                    // [layers][num_tokens] rows
  std::vector<const void*> rows_;  // into copy_
};

}  // namespace graft
