// What a rank keeps of an adapter, found in the whole one where it lies in the host's memory.
#include "executor/rank_worker.h"

#include <gtest/gtest.h>

#include "executor/host_adapter.h"
#include "executor/rank_message.h"
#include "model/adapter_test_util.h"

namespace graft {
namespace rank_worker_test {

using testing::FileOf;
using testing::LoraTestTensors;
using testing::Peft;

// Sizes that two and four ranks share, none of them a multiple of 64 bytes.
ModelConfig Model(bool fused) {
  ModelConfig config = fused ? testing::FusedOddModel() : testing::OddModel();
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.intermediate_size = 36;
  config.vocab_size = 12;
  return config;
}

PeftConfig PeftOf(bool fused) {
  return fused ? Peft(R"("target_modules": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"])")
               : Peft(R"("target_modules": ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"],
                         "rank_pattern": {"o_proj": 7}, "layers_to_transform": [0, 2])");
}

// The bytes of the adapter's rows, those of no row left at zero.
std::string RowsOf(const HostAdapter& adapter) {
  std::string rows(static_cast<size_t>(adapter.weight_bytes), '\0');
  for (const HostAdapter::Stretch& stretch : adapter.stretches) {
    std::copy_n(stretch.data, stretch.bytes, rows.begin() + stretch.source_begin);
  }
  return rows;
}

// The whole adapter, cut into pages as a host store has it: no row lies in two.
HostAdapter InPages(HostAdapter whole, std::vector<std::string>& pages) {
  const std::string rows = RowsOf(whole);
  whole.stretches.clear();
  int64_t begin = 0;
  for (const RowRun& run : whole.weight_rows) {
    for (int32_t row = 0; row < run.num_rows; ++row, begin += run.row_bytes) {
      pages.push_back(rows.substr(static_cast<size_t>(begin), static_cast<size_t>(run.row_bytes)));
    }
  }
  begin = 0;
  for (const std::string& page : pages) {
    const auto bytes = static_cast<int64_t>(page.size());
    whole.stretches.push_back({begin, bytes, page.data()});
    begin += bytes;
  }
  return whole;
}

TEST(AdapterSlicerTest, FindsWhatARankKeeps) {
  for (const bool fused : {false, true}) {
    const ModelConfig model = Model(fused);
    const SafetensorsFile file = FileOf(LoraTestTensors(PeftOf(fused), model));
    const LoraWeights weights = *LoraWeights::Load(file, PeftOf(fused), model, DType::kBF16);
    std::vector<std::string> pages;
    const HostAdapter whole = InPages(DescribeHostAdapter(weights, model, "hash", "base"), pages);
    for (const int32_t num_ranks : {2, 4}) {
      for (int32_t rank = 0; rank < num_ranks; ++rank) {
        const Shard shard = {rank, num_ranks};
        const LoraWeights expected = weights.SliceOf(model, shard);
        const HostAdapter described =
            DescribeHostAdapter(expected, ShardConfig(model, num_ranks), "hash", "base");
        const HostAdapter slice = AdapterSlicer(model, shard, DType::kBF16).Slice(whole);
        EXPECT_EQ(RowsOf(slice), RowsOf(described));
        EXPECT_EQ(slice.facts.bytes, described.facts.bytes);
        EXPECT_EQ(slice.facts.hash, "hash");
        EXPECT_EQ(slice.facts.num_layers, model.num_layers);
        EXPECT_EQ(slice.layer_ends, described.layer_ends);
        ASSERT_EQ(slice.matrices.size(), described.matrices.size());
        for (size_t i = 0; i < slice.matrices.size(); ++i) {
          EXPECT_EQ(slice.matrices[i].a_begin, described.matrices[i].a_begin);
          EXPECT_EQ(slice.matrices[i].b_begin, described.matrices[i].b_begin);
          EXPECT_EQ(slice.matrices[i].tables_begin, described.matrices[i].tables_begin);
          EXPECT_EQ(slice.matrices[i].rank, described.matrices[i].rank);
          EXPECT_EQ(slice.matrices[i].scale, described.matrices[i].scale);
        }
      }
    }
  }
}

TEST(AdapterSlicerTest, OneRankKeepsAll) { EXPECT_TRUE(AdapterSlicer().keeps_all()); }

TEST(RankMessageTest, WhatIsWrittenIsRead) {
  MessageWriter writer;
  writer.Add(RankOrder::kCopy);
  writer.AddAll(std::span<const int32_t>());
  const int64_t numbers[] = {1, -2, int64_t{1} << 40};
  writer.AddAll(std::span<const int64_t>(numbers));
  writer.Add(0.5f);
  MessageReader reader(writer.bytes());
  EXPECT_EQ(reader.Take<RankOrder>(), RankOrder::kCopy);
  EXPECT_TRUE(reader.TakeAll<int32_t>().empty());
  EXPECT_EQ(reader.TakeAll<int64_t>(), (std::vector<int64_t>{1, -2, int64_t{1} << 40}));
  EXPECT_EQ(reader.Take<float>(), 0.5f);
  EXPECT_DEATH(reader.Take<char>(), "bytes");
}

}  // namespace rank_worker_test
}  // namespace graft
