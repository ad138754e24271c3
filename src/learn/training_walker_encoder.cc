// Encoders: the final states of their virtual tokens, or a linear map of vectors, become memories,
// and the memories' gradients go back through them. Neither leaves the device.
#include <algorithm>

#include "base/check.h"
#include "kernels/linear_map/linear_map.h"
#include "learn/training_walker.h"
#include "tensor/cuda_memory.h"

namespace graft {

DeviceMasters& TrainingWalker::EmbeddingsOf(int32_t adapter) {
  const auto index = static_cast<size_t>(adapter);
  CHECK(adapters_[index].prompt->kind() == VirtualTokenKind::kEmbedding);
  return *followed_[index].prompt;
}

void TrainingWalker::Encode(const TrainingBatch& batch, std::span<const EncodedRows> rows) {
  PutBatch(batch, {}, false);
  const int64_t n = config_.hidden_size;
  const TrainingPieces::Scope piece(pieces_);
  Forward();
  std::vector<DeviceMasters*> memories;
  for (const EncodedRows& part : rows) {
    DeviceMasters& memory = EmbeddingsOf(part.memory);
    final_norm_.Run(hidden() + part.row * n, part.num_rows, DType::kF32,
                    memory.parameters() + part.first * n, stream_);
    if (std::ranges::find(memories, &memory) == memories.end()) memories.push_back(&memory);
  }
  for (DeviceMasters* memory : memories) memory->Round();
}

void TrainingWalker::BackwardEncoded(const TrainingBatch& batch,
                                     std::span<const EncodedRows> rows) {
  PutBatch(batch, {}, true);
  const TrainingPieces::Scope piece(pieces_);
  Forward();
  ZeroStreamGradients();
  for (const EncodedRows& part : rows) BackwardMemory(part);
  Backward();
}

// Goes through the final norm into the residual stream's gradient, as the head does.
void TrainingWalker::BackwardMemory(const EncodedRows& rows) {
  const int64_t n = config_.hidden_size;
  const float* const d_memory = EmbeddingsOf(rows.memory).gradients() + rows.first * n;
  for (int32_t begin = 0; begin < rows.num_rows; begin += limits_.logits_rows_max) {
    const int64_t num_rows = std::min(limits_.logits_rows_max, rows.num_rows - begin);
    const int64_t first = (int64_t{rows.row} + begin) * n;
    Buffer& copy = room_.d_hidden_copy;
    final_norm_.Run(hidden() + first, num_rows, dtype_, context_.scratch.logits_normed.data(),
                    stream_, head_input_.data());
    final_norm_.Back(
        {.kept = head_input_.data(),
         .dtype = dtype_,
         .d_out = d_memory + begin * n,
         .d_x = room_.d_hidden.as<float>() + first,
         .d_x_copy = copy.bytes() == 0 ? nullptr : copy.as<char>() + first * DTypeBytes(dtype_),
         .copy_scale = ResidualScaleOf(config_.num_layers - 1),
         .num_rows = num_rows},
        stream_);
  }
}

void TrainingWalker::ForEachMapped(std::span<const MappedRows> rows,
                                   const std::function<void(const MappedRows& part)>& function) {
  const int64_t n = config_.hidden_size;
  for (const MappedRows& all : rows) {
    for (int32_t done = 0; done < all.num_rows; done += limits_.rows_max) {
      const int32_t count = std::min(limits_.rows_max, all.num_rows - done);
      CopyToDevice(context_.scratch.hidden.data(), all.vectors + done * n,
                   count * n * int64_t{sizeof(float)}, stream_);
      function({nullptr, count, all.memory, all.first + done});
    }
  }
}

void TrainingWalker::Map(int32_t map, std::span<const MappedRows> rows) {
  FollowAdapters();
  const int64_t n = config_.hidden_size;
  const TrainingPieces::Scope piece(pieces_);
  ForEachMapped(rows, [&](const MappedRows& part) {
    LinearMap({hidden(), EmbeddingsOf(map).parameters(),
               EmbeddingsOf(part.memory).parameters() + part.first * n, part.num_rows, n, n},
              stream_);
  });
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == 0 || rows[i].memory != rows[i - 1].memory) EmbeddingsOf(rows[i].memory).Round();
  }
}

void TrainingWalker::BackwardMap(int32_t map, std::span<const MappedRows> rows) {
  FollowAdapters();
  const int64_t n = config_.hidden_size;
  DeviceMasters& masters = EmbeddingsOf(map);
  const TrainingPieces::Scope piece(pieces_);
  ForEachMapped(rows, [&](const MappedRows& part) {
    LinearMapGradient({hidden(), EmbeddingsOf(part.memory).gradients() + part.first * n,
                       masters.gradients(), part.num_rows, n, n},
                      stream_);
  });
}

}  // namespace graft
