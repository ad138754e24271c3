// What rank 0 sends of a step, against what another rank reads: array by array.
#include "executor/rank_batch.h"

#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <vector>

namespace graft {
namespace rank_batch_test {

// Gives every member of BatchArrays numbers of its own.
class Filler {
 public:
  void operator()(int32_t& value) const { value = ++*next_; }
  template <typename T>
  void operator()(std::span<const T>& values) const {
    static_assert(sizeof(T) % sizeof(int32_t) == 0);
    // Lengths that put what follows off its border, unless the writer pads.
    const size_t num_values = 1 + static_cast<size_t>(*next_) % 3;
    std::vector<int32_t>& words = words_->emplace_back(num_values * sizeof(T) / sizeof(int32_t));
    for (int32_t& word : words) word = ++*next_;
    values = {reinterpret_cast<const T*>(words.data()), num_values};
  }

 private:
  std::shared_ptr<int32_t> next_ = std::make_shared<int32_t>(0);
  std::shared_ptr<std::list<std::vector<int32_t>>> words_ =
      std::make_shared<std::list<std::vector<int32_t>>>();
};

// Collects the members' bytes.
class Bytes {
 public:
  explicit Bytes(std::vector<std::vector<char>>& all) : all_(all) {}
  void operator()(const int32_t& value) const { Add(&value, sizeof(value)); }
  template <typename T>
  void operator()(const std::span<const T>& values) const {
    Add(values.data(), values.size_bytes());
  }

 private:
  void Add(const void* data, size_t bytes) const {
    const auto* const begin = static_cast<const char*>(data);
    all_.emplace_back(begin, begin + bytes);
  }
  std::vector<std::vector<char>>& all_;
};

std::vector<std::vector<char>> BytesOf(const BatchArrays& arrays) {
  std::vector<std::vector<char>> all;
  ForEachArray(arrays, Bytes(all));
  return all;
}

TEST(RankBatchTest, EveryArrayArrives) {
  HostBatch batch;
  const Filler filler;
  ForEachArray(static_cast<BatchArrays&>(batch), filler);
  batch.lora.rank_max = 7;
  batch.lora_beside = LoraBesideScope::kMlp;
  MessageWriter writer;
  writer.Add(RankOrder::kForward);
  WriteBatch(batch, &writer);

  MessageReader reader(writer.bytes());
  EXPECT_EQ(reader.Take<RankOrder>(), RankOrder::kForward);
  const LoraMatrix matrices[1] = {};
  const VirtualRows rows[1] = {};
  const HostBatch read = ReadBatch({matrices, 5, 99}, rows, reader);
  EXPECT_EQ(BytesOf(read), BytesOf(batch));
  EXPECT_EQ(read.lora.matrices, matrices);
  EXPECT_EQ(read.lora.stride, 5);
  EXPECT_EQ(read.lora.rank_max, 7);
  EXPECT_EQ(read.lora_beside, LoraBesideScope::kMlp);
  EXPECT_EQ(read.virtual_rows, rows);
  EXPECT_EQ(read.gate, nullptr);
  EXPECT_DEATH(reader.Take<char>(), "bytes");
}

// A member that is named and left out would not be in the sum.
TEST(RankBatchTest, NoMemberIsLeftOut) {
  size_t bytes = 0;
  BatchArrays arrays;
  ForEachArray(arrays, [&](const auto& member) {
    bytes +=
        (sizeof(member) + alignof(BatchArrays) - 1) / alignof(BatchArrays) * alignof(BatchArrays);
  });
  EXPECT_EQ(bytes, sizeof(BatchArrays));
  EXPECT_LE(sizeof(HostBatch), sizeof(BatchArrays) + sizeof(BatchWeights) + sizeof(BatchTransport))
      << "members of HostBatch itself";
}

TEST(RankBatchTest, WhatRanksCannotDoIsNoStepOfTheirs) {
  HostBatch batch;
  batch.bridge = reinterpret_cast<LoraBridge*>(&batch);
  MessageWriter writer;
  EXPECT_DEATH(WriteBatch(batch, &writer), "ranks do not compute that");
}

}  // namespace rank_batch_test
}  // namespace graft
