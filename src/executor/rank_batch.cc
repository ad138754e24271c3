#include "executor/rank_batch.h"

namespace graft {
namespace {

class ArrayWriter {
 public:
  explicit ArrayWriter(MessageWriter& message) : message_(message) {}
  void operator()(const int32_t& value) const { message_.Add(value); }
  template <typename T>
  void operator()(const std::span<const T>& values) const {
    message_.AddAll(values);
  }

 private:
  MessageWriter& message_;
};

class ArrayReader {
 public:
  explicit ArrayReader(MessageReader& message) : message_(message) {}
  void operator()(int32_t& value) const { value = message_.Take<int32_t>(); }
  template <typename T>
  void operator()(std::span<const T>& values) const {
    values = message_.TakeSpan<T>();
  }

 private:
  MessageReader& message_;
};

}  // namespace

void WriteBatch(const HostBatch& batch, MessageWriter* message) {
  ForEachArray(static_cast<const BatchArrays&>(batch), ArrayWriter(*message));
  [[maybe_unused]] const auto& [lora, virtual_rows, gate, bridge, lora_beside] =
      static_cast<const BatchWeights&>(batch);
  CHECK(bridge == nullptr) << "ranks do not compute that";
  [[maybe_unused]] const auto& [matrices, stride, rank_max] = lora;
  message->Add(rank_max);
  message->Add(lora_beside);
  // Rank 0 has the tokens that the step before draws, and tells them by the ranks' exchange.
  [[maybe_unused]] const auto& [drawn_tokens, avoids_copy_engine, begun] =
      static_cast<const BatchTransport&>(batch);
}

HostBatch ReadBatch(const LoraTable& own_adapters, const VirtualRows* own_virtual_rows,
                    MessageReader& message) {
  HostBatch batch;
  ForEachArray(static_cast<BatchArrays&>(batch), ArrayReader(message));
  batch.lora = own_adapters;
  batch.lora.rank_max = message.Take<int32_t>();
  batch.virtual_rows = own_virtual_rows;
  batch.lora_beside = message.Take<LoraBesideScope>();
  return batch;
}

}  // namespace graft
