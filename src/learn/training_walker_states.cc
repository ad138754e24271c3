// Hidden states of some rows behind the last layer: for the head, and for the host.
#include <algorithm>

#include "learn/training_walker.h"
#include "tensor/cuda_memory.h"

namespace graft {

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
      head_.RunNorm({batch_.rows + begin, static_cast<size_t>(count)}, batch_.num_rows, stream_);
      const TrainingPieces::Break others(pieces_);
      CopyFromDevice(states, context_.scratch.picked.data(), count * n * int64_t{sizeof(float)},
                     stream_);
      states += count * n;
    }
  }
  Synchronize(stream_);
}

}  // namespace graft
