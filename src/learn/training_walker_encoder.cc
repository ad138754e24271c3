// Encoders: the final states of their virtual tokens, or keys and values of their rows, become
// memories, and the memories' gradients go back through them. Neither leaves the device.
#include <algorithm>

#include "base/check.h"
#include "learn/training_walker.h"
#include "tensor/cuda_memory.h"
#include "tensor/device_array.h"

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

Buffer TrainingWalker::KvRowsOf(std::span<const EncodedKeysValues> rows, bool gradients) {
  std::vector<KvRow> list;
  for (const EncodedKeysValues& row : rows) {
    const auto index = static_cast<size_t>(row.memory);
    const TrainedPrompt& prompt = *adapters_[index].prompt;
    CHECK(prompt.kind() == VirtualTokenKind::kKeysValues && row.token < prompt.num_tokens());
    DeviceMasters& memory = *followed_[index].prompt;
    float* const numbers = gradients ? memory.gradients() : memory.parameters();
    list.push_back({row.row, row.from, row.to, numbers + row.token * prompt.columns()});
  }
  return OnDevice(list, stream_);
}

// A layer's keys and values are there until the next layer's take their room.
void TrainingWalker::EncodeKeysValues(const TrainingBatch& batch,
                                      std::span<const EncodedKeysValues> rows) {
  PutBatch(batch, {}, false);
  const Buffer list = KvRowsOf(rows, false);
  const int64_t kv_columns = int64_t{2} * config_.kv_size();
  {
    const TrainingPieces::Scope piece(pieces_);
    embedding_.Run(Step());
    for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
      RunLayer(layer);
      const KvMemory memory = {list.as<KvRow>(), static_cast<int32_t>(rows.size()),
                               layer * kv_columns};
      blocks_[static_cast<size_t>(layer)].TakeMemory(memory, KeptOf(layer), Step());
      pieces_.AfterLayer();
    }
  }
  std::vector<int32_t> memories;
  for (const EncodedKeysValues& row : rows) {
    if (std::ranges::find(memories, row.memory) != memories.end()) continue;
    memories.push_back(row.memory);
    followed_[static_cast<size_t>(row.memory)].prompt->Round();
  }
}

void TrainingWalker::BackwardKeysValues(const TrainingBatch& batch,
                                        std::span<const EncodedKeysValues> rows) {
  PutBatch(batch, {}, true);
  const Buffer list = KvRowsOf(rows, true);
  const TrainingPieces::Scope piece(pieces_);
  Forward();
  ZeroStreamGradients();
  Backward({list.as<KvRow>(), static_cast<int32_t>(rows.size())});
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

}  // namespace graft
