#include "model/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "model/model_test_util.h"
#include "model/transformer_sizes.h"

namespace graft {
namespace shard_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

ModelConfig Model(int32_t heads, int32_t kv_heads, int32_t intermediate, int32_t words) {
  ModelConfig config;
  config.vocab_size = words;
  config.hidden_size = 48;
  config.intermediate_size = intermediate;
  config.num_layers = 2;
  config.num_heads = heads;
  config.num_kv_heads = kv_heads;
  config.head_dim = 6;
  config.context_tokens_max = 16;
  config.SetPlainLayers();
  return config;
}

std::vector<IndexRange> All(IndexRange (*part)(const ModelConfig&, const Shard&),
                            const ModelConfig& config, int32_t num_ranks) {
  std::vector<IndexRange> ranges;
  for (int32_t rank = 0; rank < num_ranks; ++rank)
    ranges.push_back(part(config, {rank, num_ranks}));
  return ranges;
}

using Ranges = std::vector<IndexRange>;

TEST(ShardTest, HeadsAndMlpAreCutEvenly) {
  const ModelConfig config = Model(8, 4, 24, 100);
  ASSERT_TRUE(CheckRanks(config, 2).ok());
  EXPECT_EQ(All(HeadsOf, config, 2), (Ranges{{0, 4}, {4, 8}}));
  EXPECT_EQ(All(KvHeadsOf, config, 2), (Ranges{{0, 2}, {2, 4}}));
  EXPECT_EQ(All(IntermediateOf, config, 2), (Ranges{{0, 12}, {12, 24}}));
  const ModelConfig shard = ShardConfig(config, 2);
  EXPECT_EQ(shard.num_heads, 4);
  EXPECT_EQ(shard.num_kv_heads, 2);
  EXPECT_EQ(shard.intermediate_size, 12);
  EXPECT_EQ(shard.hidden_size, 48);
  EXPECT_EQ(shard.vocab_size, 100);
}

// Every rank's heads of queries read the one head of keys that it has a copy of.
TEST(ShardTest, FewHeadsOfKeysAreCopied) {
  const ModelConfig config = Model(8, 2, 24, 100);
  for (const int32_t num_ranks : {4, 8}) {
    ASSERT_TRUE(CheckRanks(config, num_ranks).ok());
    EXPECT_EQ(ShardConfig(config, num_ranks).num_kv_heads, 1);
    for (int32_t rank = 0; rank < num_ranks; ++rank) {
      const IndexRange heads = HeadsOf(config, {rank, num_ranks});
      const IndexRange kv = KvHeadsOf(config, {rank, num_ranks});
      EXPECT_EQ(kv.size(), 1);
      for (int64_t head = heads.begin; head < heads.end; ++head) EXPECT_EQ(head / 4, kv.begin);
    }
  }
}

TEST(ShardTest, OddVocabulariesAreCutUnevenly) {
  EXPECT_EQ(All(VocabularyOf, Model(8, 8, 8, 101), 4),
            (Ranges{{0, 26}, {26, 52}, {52, 78}, {78, 101}}));
  EXPECT_EQ(VocabularySliceMax(Model(8, 8, 8, 101), 4), 26);
  EXPECT_EQ(All(VocabularyOf, Model(8, 8, 8, 101), 1), (Ranges{{0, 101}}));
}

TEST(ShardTest, WhatDoesNotDivideIsRefusedByName) {
  const auto refusal = [](const ModelConfig& config, int32_t ranks) {
    return CheckRanks(config, ranks).message();
  };
  EXPECT_THAT(refusal(Model(6, 3, 24, 100), 4),
              AllOf(HasSubstr("4 ranks cannot share the model's num_attention_heads 6"),
                    HasSubstr("as many as can: 3, 6")));
  EXPECT_THAT(refusal(Model(12, 3, 24, 100), 2), HasSubstr("num_key_value_heads 3"));
  EXPECT_THAT(refusal(Model(8, 8, 21, 100), 2),
              AllOf(HasSubstr("intermediate_size 21"), HasSubstr("this model runs on one")));
  EXPECT_THAT(refusal(Model(8, 8, 24, 9), 8), HasSubstr("vocab_size 9"));
  EXPECT_EQ(refusal(Model(7, 7, 21, 9), 1), "");
}

// A norm over all heads is of the whole model's, whatever a rank has of them.
TEST(ShardTest, RanksKnowTheWholeModelsHeads) {
  const ModelConfig config = Model(8, 2, 24, 100);
  for (const int32_t num_ranks : {1, 2, 4}) {
    const ModelConfig shard = ShardConfig(config, num_ranks);
    EXPECT_EQ(shard.num_heads, 8 / num_ranks);
    EXPECT_EQ(shard.whole_heads, 8);
    EXPECT_EQ(shard.whole_kv_heads, 2);
  }
}

// A step that is given up takes part in what is left of them.
TEST(ShardTest, RanksSumEmbeddingsAndLayersAndWhatNormsOverAllHeadsNeed) {
  ModelConfig config = Model(8, 2, 24, 100);
  EXPECT_EQ(RankSumsOf(config), (std::vector<int64_t>{48, 48, 48, 48, 48}));
  config.layers[1].qk_norm = config.layers[1].qk_norm_across_heads = true;
  EXPECT_EQ(RankSumsOf(config), (std::vector<int64_t>{48, 48, 48, 2, 48, 48}));
}

// How targets are cut follows from their sizes, whatever their places in the family's list are.
TEST(ShardTest, TargetsWithoutAGateAreCutByTheirSizes) {
  const ModelConfig config = *LoadModelConfig(
      graft::testing::SourcePath("tests/goldens/starcoder2"));  // 4 heads, 2 of keys
  const auto slice = [&](int module) {
    return SliceOfLoraModule(config, static_cast<LoraModule>(module), {1, 2});
  };
  EXPECT_EQ(slice(0).out, (IndexRange{16, 32}));
  EXPECT_EQ(slice(2).out, (IndexRange{8, 16}));
  EXPECT_EQ(slice(3).in, (IndexRange{16, 32}));
  EXPECT_EQ(slice(3).out, (IndexRange{0, 32}));
  EXPECT_EQ(slice(4).in, (IndexRange{0, 32}));
  EXPECT_EQ(slice(4).out, (IndexRange{40, 80}));
  EXPECT_EQ(slice(5).in, (IndexRange{40, 80}));
  EXPECT_EQ(slice(5).out, (IndexRange{0, 32}));
}

TEST(ShardTest, AdaptersKeepOneSideWhole) {
  const ModelConfig config = Model(8, 4, 24, 100);
  for (const LoraModule module : kAllLoraModules) {
    const LoraModuleShape whole = ShapeOfLoraModule(config, module);
    const LoraModuleShape part = ShapeOfLoraModule(ShardConfig(config, 2), module);
    const bool cuts_inputs = module == LoraModule::kO || module == LoraModule::kDown;
    int64_t in = 0, out = 0;
    for (int32_t rank = 0; rank < 2; ++rank) {
      const LoraModuleSlice slice = SliceOfLoraModule(config, module, {rank, 2});
      EXPECT_EQ(slice.in.size(), part.in);
      EXPECT_EQ(slice.out.size(), part.out);
      if (cuts_inputs) {
        EXPECT_EQ(slice.in.begin, in);
      }
      if (!cuts_inputs) {
        EXPECT_EQ(slice.out.begin, out);
      }
      in += slice.in.size();
      out += slice.out.size();
    }
    EXPECT_EQ(in, cuts_inputs ? whole.in : 2 * whole.in);
    EXPECT_EQ(out, cuts_inputs ? 2 * whole.out : whole.out);
  }
}

}  // namespace shard_test
}  // namespace graft
