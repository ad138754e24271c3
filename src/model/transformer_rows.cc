// Rows of the last step behind the final norm.
#include "kernels/embedding/embedding.h"
#include "kernels/rms_norm/rms_norm.h"
#include "model/transformer.h"

namespace graft {

const float* Transformer::HiddenStates(std::span<const int32_t> rows, Stream& stream) {
  CHECK_LE(rows.size(), static_cast<size_t>(limits_.logits_rows_max));
  CHECK(activation_dtype_ == DType::kF32) << "of a GPU";
  NormRows(rows, stream);
  return logits_normed_.as<float>();
}

void Transformer::NormRows(std::span<const int32_t> rows, Stream& stream) {
  const auto num_rows = static_cast<int64_t>(rows.size());
  const int64_t hidden = config_.hidden_size;
  // Picking rows is what Embedding does, with the hidden states for its table.
  Embedding({.table = hidden_.data(),
             .dtype = DType::kF32,
             .vocab_size = num_rows_,
             .tokens = rows.data(),
             .out = logits_hidden_.as<float>(),
             .num_tokens = num_rows,
             .n = hidden},
            stream);
  RmsNorm({.x = logits_hidden_.as<float>(),
           .x_stride = hidden,
           .weight = weights_.final_norm.as<float>(),
           .out = logits_normed_.data(),
           .out_stride = hidden,
           .out_dtype = activation_dtype_,
           .num_tokens = num_rows,
           .n = hidden,
           .epsilon = config_.rms_norm_epsilon},
          stream);
}

}  // namespace graft
