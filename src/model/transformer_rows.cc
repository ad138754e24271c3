// Norms of rows: of the last step's behind the final norm, and of queries and keys.
#include "kernels/embedding/embedding.h"
#include "kernels/rms_norm/rms_norm.h"
#include "model/transformer.h"

namespace graft {

const float* Transformer::HiddenStates(std::span<const int32_t> rows, Stream& stream) {
  CHECK_LE(rows.size(), static_cast<size_t>(limits_.logits_rows_max));
  if (!stream.device.is_cpu()) {
    CopyToDevice(logits_rows_.data(), rows.data(), static_cast<int64_t>(rows.size_bytes()), stream);
    rows = {logits_rows_.as<int32_t>(), rows.size()};
  }
  PickRows(rows, stream);
  NormPicked(static_cast<int64_t>(rows.size()), DType::kF32, logits_hidden_.data(), stream);
  return logits_hidden_.as<float>();
}

void Transformer::NormAcrossHeads(int32_t layer, int64_t num_rows, Stream& stream) {
  CHECK(ranks_ == nullptr) << "a rank has a part of the heads";
  const LayerWeights& weights = weights_.layers[layer];
  const auto norm = [&](float* x, int64_t n, const Buffer& weight) {
    RmsNorm({.x = x,
             .x_stride = config_.qkv_size(),
             .weight = weight.as<float>(),
             .out = x,
             .out_stride = config_.qkv_size(),
             .num_tokens = num_rows,
             .n = n,
             .epsilon = config_.rms_norm_epsilon},
            stream);
  };
  float* const q = qkv_.as<float>();
  norm(q, config_.q_size(), weights.q_norm);
  norm(q + config_.q_size(), config_.kv_size(), weights.k_norm);
}

void Transformer::NormRows(std::span<const int32_t> rows, Stream& stream) {
  PickRows(rows, stream);
  NormPicked(static_cast<int64_t>(rows.size()), activation_dtype_, logits_normed_.data(), stream);
}

// Picking rows is what Embedding does, with the hidden states for its table.
void Transformer::PickRows(std::span<const int32_t> rows, Stream& stream) {
  Embedding({.table = hidden_.data(),
             .dtype = DType::kF32,
             .vocab_size = num_rows_,
             .tokens = rows.data(),
             .out = logits_hidden_.as<float>(),
             .num_tokens = static_cast<int64_t>(rows.size()),
             .n = config_.hidden_size},
            stream);
}

void Transformer::NormPicked(int64_t num_rows, DType dtype, void* out, Stream& stream) {
  RmsNorm({.x = logits_hidden_.as<float>(),
           .x_stride = config_.hidden_size,
           .weight = weights_.final_norm.as<float>(),
           .out = out,
           .out_stride = config_.hidden_size,
           .out_dtype = dtype,
           .num_tokens = num_rows,
           .n = config_.hidden_size,
           .epsilon = config_.rms_norm_epsilon},
          stream);
}

}  // namespace graft
