// Rows of the last step behind the final norm.
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
