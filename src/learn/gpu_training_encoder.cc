// Encoders: the final states of their virtual tokens become memories, and memories' gradients go
// back through them. Neither leaves the device.
#include <algorithm>

#include "base/check.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm_backward/rms_norm_backward.h"
#include "learn/gpu_training.h"

namespace graft {

void GpuTraining::PutEncoderBatch(const TrainingBatch& batch,
                                  std::span<const AdapterInTraining> adapters) {
  FollowAdapters(adapters);
  PutBatch(batch, {});
  PutTaught({});
}

GpuMasters& GpuTraining::MemoryOf(const EncodedRows& rows) {
  GpuPrompt& memory = *prompts_[static_cast<size_t>(rows.memory)];
  CHECK(memory.kind() == VirtualTokenKind::kEmbedding);
  return memory.masters();
}

void GpuTraining::Encode(const TrainingBatch& batch, std::span<const AdapterInTraining> adapters,
                         std::span<const EncodedRows> rows) {
  PutEncoderBatch(batch, adapters);
  learns_ = false;
  const int64_t n = config_.hidden_size;
  const GpuPieces::Scope piece(pieces_);
  Forward();
  std::vector<GpuMasters*> memories;
  for (const EncodedRows& part : rows) {
    GpuMasters& memory = MemoryOf(part);
    RmsNorm({.x = hidden_.as<float>() + part.row * n,
             .x_stride = n,
             .weight = weights_.final_norm.as<float>(),
             .out = memory.parameters() + part.first * n,
             .out_stride = n,
             .num_tokens = part.num_rows,
             .n = n,
             .epsilon = config_.rms_norm_epsilon},
            stream_);
    if (std::ranges::find(memories, &memory) == memories.end()) memories.push_back(&memory);
  }
  for (GpuMasters* memory : memories) memory->Round();
}

void GpuTraining::BackwardEncoded(const TrainingBatch& batch,
                                  std::span<const AdapterInTraining> adapters,
                                  std::span<const EncodedRows> rows, bool begins) {
  PutEncoderBatch(batch, adapters);
  learns_ = true;
  const GpuPieces::Scope piece(pieces_);
  Forward();
  BeginGradients(/*adds=*/!begins);
  for (const EncodedRows& part : rows) BackwardMemory(part);
  Backward();
}

// Through the final norm into the residual stream's gradient, as the head does.
void GpuTraining::BackwardMemory(const EncodedRows& rows) {
  const int64_t n = config_.hidden_size;
  const float* const d_memory = MemoryOf(rows).gradients() + rows.first * n;
  for (int32_t begin = 0; begin < rows.num_rows; begin += limits_.logits_rows_max) {
    const int64_t num_rows = std::min(limits_.logits_rows_max, rows.num_rows - begin);
    const int64_t first = (int64_t{rows.row} + begin) * n;
    const bool has_copy = d_hidden_copy_.bytes() > 0;
    RmsNorm({.x = hidden_.as<float>() + first,
             .x_stride = n,
             .weight = weights_.final_norm.as<float>(),
             .out = head_normed_.data(),
             .out_stride = n,
             .out_dtype = dtype_,
             .copy = head_input_.data(),
             .num_tokens = num_rows,
             .n = n,
             .epsilon = config_.rms_norm_epsilon},
            stream_);
    RmsNormBackward(
        {.x = head_input_.data(),
         .x_dtype = dtype_,
         .weight = weights_.final_norm.as<float>(),
         .d_out = d_memory + begin * n,
         .d_x = d_hidden_.as<float>() + first,
         .num_rows = num_rows,
         .n = n,
         .epsilon = config_.rms_norm_epsilon,
         .d_x_copy = has_copy ? d_hidden_copy_.as<char>() + first * DTypeBytes(dtype_) : nullptr},
        stream_);
  }
}

}  // namespace graft
