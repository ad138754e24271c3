// What a rank keeps of an adapter, found in the whole one where it lies in the host's memory.
#include "executor/rank_worker.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "adapters/adapter_test_util.h"
#include "adapters/host_adapter.h"
#include "executor/rank_message.h"

namespace graft {
namespace rank_worker_test {

using testing::FileOf;
using testing::LoraTestTensors;
using testing::Peft;
using testing::PromptJson;
using testing::PromptTestTensor;

// Sizes that two and four ranks share, none of them a multiple of 64 bytes.
ModelConfig Model(bool fused) {
  ModelConfig config = fused ? testing::FusedOddModel() : testing::OddModel();
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.intermediate_size = 36;
  config.vocab_size = 1100;  // blocks of 192 words, of two ranks 128, of four 64
  return config;
}

PeftConfig PeftOf(bool fused) {
  return fused ? Peft(R"("target_modules": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"])")
               : Peft(R"("target_modules": ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj",
                                            "lm_head"],
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

// Whatever lies side by side by chance: no stretch goes on from one page into the next.
void ExpectWithin(const HostAdapter& whole, const HostAdapter& slice) {
  for (const HostAdapter::Stretch& stretch : slice.stretches) {
    EXPECT_TRUE(std::ranges::any_of(whole.stretches, [&](const HostAdapter::Stretch& page) {
      return page.data <= stretch.data && stretch.data + stretch.bytes <= page.data + page.bytes;
    }));
  }
}

TEST(AdapterSlicerTest, StretchesEndWithPages) {
  const ModelConfig model = Model(/*fused=*/false);
  const SafetensorsFile file = FileOf(LoraTestTensors(PeftOf(false), model));
  const LoraWeights weights = *LoraWeights::Load(file, PeftOf(false), model, DType::kBF16);
  HostAdapter whole = DescribeHostAdapter(weights, model, "hash", "base");
  const AdapterSlicer slicer(model, {1, 2}, TypesOf(DType::kBF16));
  const std::string expected = RowsOf(slicer.Slice(whole));
  // The same memory, page by page.
  const HostAdapter::Stretch all = whole.stretches[0];
  whole.stretches.clear();
  int64_t begin = 0;
  for (const RowRun& run : whole.weight_rows) {
    for (int32_t row = 0; row < run.num_rows; ++row, begin += run.row_bytes) {
      whole.stretches.push_back({begin, run.row_bytes, all.data + begin});
    }
  }
  const HostAdapter slice = slicer.Slice(whole);
  EXPECT_EQ(RowsOf(slice), expected);
  ExpectWithin(whole, slice);
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
        const HostAdapter slice = AdapterSlicer(model, shard, TypesOf(DType::kBF16)).Slice(whole);
        EXPECT_EQ(RowsOf(slice), RowsOf(described));
        ExpectWithin(whole, slice);
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

// Embeddings whole, of keys and values the heads of the rank.
TEST(AdapterSlicerTest, FindsWhatARankKeepsOfVirtualTokens) {
  const ModelConfig model = Model(/*fused=*/false);
  const int64_t head = model.head_dim;
  for (const std::string kind : {"PROMPT_TUNING", "PREFIX_TUNING"}) {
    const bool is_kv = kind == "PREFIX_TUNING";
    const int64_t columns =
        is_kv ? int64_t{2} * model.num_layers * model.num_kv_heads * head : model.hidden_size;
    const PromptConfig prompt = *ParsePromptConfig(PromptJson(kind, ""), model);
    const SafetensorsFile file = FileOf({PromptTestTensor(3, columns)});
    const ServedTypes types;
    AdapterWeights weights(LoraWeights::None(model, DType::kF32),
                           *VirtualTokens::Load(file, prompt, model, types));
    std::vector<std::string> pages;
    const HostAdapter whole = InPages(DescribeHostAdapter(weights, model, "hash", "base"), pages);
    const std::string all = RowsOf(whole);
    for (const int32_t num_ranks : {2, 4}) {
      for (int32_t rank = 0; rank < num_ranks; ++rank) {
        const Shard shard = {rank, num_ranks};
        const HostAdapter slice = AdapterSlicer(model, shard, types).Slice(whole);
        EXPECT_EQ(slice.facts.num_virtual_tokens, 3);
        EXPECT_EQ(slice.facts.has_virtual_kv, is_kv);
        EXPECT_EQ(slice.virtual_tokens.num_tokens, 3);
        EXPECT_EQ(slice.virtual_tokens.row_bytes % 64, 0);
        const IndexRange heads = is_kv ? KvHeadsOf(model, shard) : IndexRange{0, 1};
        const int64_t part = is_kv ? head * 4 : model.hidden_size * 4;
        const int64_t num_parts = is_kv ? int64_t{2} * model.num_layers : 1;
        const int64_t num_heads = is_kv ? model.num_kv_heads : 1;
        const std::string rows = RowsOf(slice);
        for (int64_t token = 0; token < 3; ++token) {
          for (int64_t i = 0; i < num_parts; ++i) {
            const auto got = static_cast<size_t>(token * slice.virtual_tokens.row_bytes +
                                                 i * heads.size() * part);
            const auto wanted = static_cast<size_t>(token * whole.virtual_tokens.row_bytes +
                                                    (i * num_heads + heads.begin) * part);
            const auto bytes = static_cast<size_t>(heads.size() * part);
            EXPECT_EQ(rows.substr(got, bytes), all.substr(wanted, bytes));
          }
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
