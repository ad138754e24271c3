// Hidden states of some rows behind the last layer: for the head, and for the host.
#include <algorithm>

#include "kernels/embedding/embedding.h"
#include "kernels/rms_norm/rms_norm.h"
#include "learn/training_walker.h"
#include "tensor/cuda_memory.h"

namespace graft {

// Picking rows is what Embedding does, with the hidden states for its table.
void TrainingWalker::PickStates(const int32_t* rows, int64_t num_rows) {
  Embedding({.table = hidden_.data(),
             .dtype = DType::kF32,
             .vocab_size = batch_.num_rows,
             .tokens = rows,
             .out = head_hidden_.as<float>(),
             .num_tokens = num_rows,
             .n = config_.hidden_size},
            stream_);
}

const float* TrainingWalker::NormPicked(int64_t num_rows) {
  RmsNorm({.x = head_hidden_.as<float>(),
           .x_stride = config_.hidden_size,
           .weight = weights_.final_norm.as<float>(),
           .out = head_states_.data(),
           .out_stride = config_.hidden_size,
           .num_tokens = num_rows,
           .n = config_.hidden_size,
           .epsilon = config_.rms_norm_epsilon},
          stream_);
  return head_states_.as<float>();
}

void TrainingWalker::TakeStates(const TrainingBatch& batch, std::span<const int32_t> rows,
                                float* states) {
  FollowAdapters();
  PutBatch(batch, {.rows = rows});
  learns_ = false;
  const int64_t n = config_.hidden_size;
  {
    const TrainingPieces::Scope piece(pieces_);
    Forward();
    for (int32_t begin = 0; begin < batch_.num_targets; begin += limits_.logits_rows_max) {
      const int32_t count = std::min(limits_.logits_rows_max, batch_.num_targets - begin);
      PickStates(batch_.rows + begin, count);
      const float* const from = NormPicked(count);
      const TrainingPieces::Break others(pieces_);
      CopyFromDevice(states, from, count * n * int64_t{sizeof(float)}, stream_);
      states += count * n;
    }
  }
  Synchronize(stream_);
}

}  // namespace graft
