// A model on several ranks: HF's and PEFT's numbers, and rows that do not know their batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>

#include "adapters/adapter_test_util.h"
#include "adapters/base_copies.h"
#include "adapters/ranked_session.h"
#include "base/file.h"
#include "model/model_test_util.h"

namespace graft {
namespace transformer_ranks_test {

using testing::Chunk;
using testing::FileOf;
using testing::LoraTestTensors;
using testing::Peft;
using testing::RankedSession;
using testing::SourcePath;

using Rows = std::vector<std::vector<float>>;

template <typename T>
std::vector<T> Values(const SafetensorsFile& file, const std::string& name) {
  const std::span<const char> bytes = *file.Bytes(name);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

LoraWeights AdapterOf(const std::string& dir, const ModelConfig& config, DType dtype) {
  PeftConfig peft = *ParsePeftConfig(*ReadFile(dir + "/adapter_config.json"));
  const SafetensorsFile file = *SafetensorsFile::Open(dir + "/adapter_model.safetensors");
  peft.base_copies = BaseCopiesIn(file, config);
  return std::move(*LoraWeights::Load(file, peft, config, dtype));
}

double LargestDifference(const Rows& rows, const std::vector<float>& golden) {
  double largest = 0.0;
  size_t i = 0;
  for (const std::vector<float>& row : rows) {
    for (const float logit : row) {
      const double difference = std::abs(double{logit} - double{golden.at(i++)});
      largest = std::isnan(difference) ? difference : std::max(largest, difference);
      if (std::isnan(largest)) return largest;
    }
  }
  EXPECT_EQ(i, golden.size());
  return largest;
}

class GoldenRanksTest : public ::testing::TestWithParam<std::tuple<const char*, int32_t, DType>> {};

TEST_P(GoldenRanksTest, LogitsOfBaseAndAdapter) {
  const auto& [name, num_ranks, type] = GetParam();
  const DType dtype = type;  // lambdas take no bindings
  const std::string dir = SourcePath(std::string("tests/goldens/") + name);
  ModelConfig config = *LoadModelConfig(dir);
  config.text_only = true;
  ASSERT_EQ(CheckRanks(config, num_ranks).message(), "");
  RankedSession session(config, num_ranks, [&](const Shard& shard, Stream& stream) {
    return std::move(*LoadWeights(dir, config, TypesOf(dtype), stream, {}, shard));
  });
  session.SetAdapter(0, AdapterOf(dir + "/adapter", config, dtype));
  const SafetensorsFile golden = *SafetensorsFile::Open(dir + "/golden.safetensors");
  const std::vector<int32_t> tokens = Values<int32_t>(golden, "input_ids");
  const double error_max = dtype == DType::kF32 ? 1e-4 : 1e-1;
  EXPECT_LT(
      LargestDifference(session.Step({{0, tokens, -1}}), Values<float>(golden, "logits_base")),
      error_max);
  EXPECT_LT(
      LargestDifference(session.Step({{1, tokens, 0}}), Values<float>(golden, "logits_adapter")),
      error_max);
}

std::string NameOf(const ::testing::TestParamInfo<GoldenRanksTest::ParamType>& info) {
  std::string name = std::get<0>(info.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name + "_" + std::to_string(std::get<1>(info.param)) + "_ranks_" +
         std::string(DTypeName(std::get<2>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(
    Architectures, GoldenRanksTest,
    ::testing::Combine(::testing::Values("llama", "llama3-rope", "mistral-window", "qwen2", "qwen3",
                                         "gemma", "gemma2", "gemma3", "granite", "phi3-longrope",
                                         "smollm3", "olmo2", "olmo3", "gemma3-wrapper", "mistral3",
                                         "ministral3", "qwen2-vl", "qwen25-vl", "qwen3-vl", "llava",
                                         "llava-next", "idefics3", "smolvlm", "exaone4", "glm",
                                         "glm4"),
                       ::testing::Values(1, 2, 4), ::testing::Values(DType::kF32, DType::kBF16)),
    NameOf);

// Two heads are for two ranks.
INSTANTIATE_TEST_SUITE_P(OfTwoHeads, GoldenRanksTest,
                         ::testing::Combine(::testing::Values("gpt2", "gpt-neo", "gpt-neox",
                                                              "gpt-neox-serial", "phi",
                                                              "starcoder2"),
                                            ::testing::Values(1, 2),
                                            ::testing::Values(DType::kF32, DType::kBF16)),
                         NameOf);

// Each rank has the head's blocks of its own words.
TEST(HeadRanksTest, LogitsOfAnAdapterOfTheHead) {
  for (const std::string name : {"llama", "gemma2", "granite"}) {
    for (const int32_t num_ranks : {1, 2, 4}) {
      SCOPED_TRACE(name + " on " + std::to_string(num_ranks));
      const std::string base = SourcePath("tests/goldens/" + name);
      const std::string dir = SourcePath("tests/goldens/heads/" + name + "-with-head");
      const ModelConfig config = *LoadModelConfig(base);
      if (!CheckRanks(config, num_ranks).ok()) continue;
      RankedSession session(config, num_ranks, [&](const Shard& shard, Stream& stream) {
        return std::move(*LoadWeights(base, config, TypesOf(DType::kF32), stream, {}, shard));
      });
      session.SetAdapter(0, AdapterOf(dir + "/adapter", config, DType::kF32));
      session.ChangeHead();
      const SafetensorsFile golden = *SafetensorsFile::Open(dir + "/golden.safetensors");
      const std::vector<int32_t> tokens = Values<int32_t>(golden, "input_ids");
      EXPECT_LT(LargestDifference(session.Step({{0, tokens, 0}}),
                                  Values<float>(golden, "logits_adapter")),
                1e-4);
    }
  }
}

// Odd sizes, biases everywhere, a window, one head of keys for two ranks of four, and a vocabulary
// that does not divide.
ModelConfig BiasedModel() {
  ModelConfig config;
  config.vocab_size = 101;
  config.hidden_size = 54;
  config.intermediate_size = 76;
  config.num_layers = 3;
  config.num_heads = 8;
  config.num_kv_heads = 2;
  config.head_dim = 18;
  config.context_tokens_max = 200;
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  config.SetPlainLayers();
  config.layers[1].window = 9;
  return config;
}

std::vector<int32_t> Words(int64_t n, uint64_t seed) {
  Random random(seed);
  std::vector<int32_t> words(n);
  for (int32_t& word : words) word = static_cast<int32_t>(random.Below(101));
  return words;
}

RankedSession Session(const ModelConfig& config, int32_t num_ranks, DType dtype) {
  RankedSession session(config, num_ranks, [&](const Shard& shard, Stream& stream) {
    return RandomWeights(config, TypesOf(dtype), 11, stream, {}, shard);
  });
  const PeftConfig all = Peft(
      R"("r": 5, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj",
         "up_proj", "down_proj", "lm_head"])");
  const PeftConfig some = Peft(R"("r": 17, "target_modules": ["v_proj", "down_proj"])");
  int32_t slot = 0;
  for (const PeftConfig& peft : {all, some}) {
    const SafetensorsFile file = FileOf(LoraTestTensors(peft, config, "F32", 3));
    session.SetAdapter(slot++, std::move(*LoraWeights::Load(file, peft, config, dtype)));
  }
  session.ChangeHead();
  return session;
}

class RanksTest : public ::testing::TestWithParam<std::tuple<int32_t, DType>> {};

// The same with OLMo's norms over all heads, of which the ranks sum the squares.
ModelConfig NormedModel() {
  ModelConfig config = BiasedModel();
  config.architecture = Architecture::kOlmo2;
  for (LayerSpec& layer : config.layers) {
    layer.qk_norm = layer.qk_norm_across_heads = layer.output_norms = true;
    layer.input_norms = false;
  }
  return config;
}

// Sequences of base and adapters prefill and decode at different paces in shared steps: each has
// the very bits that it has alone, on as many ranks.
void ExpectCompanyChangesNoBit(const ModelConfig& config, int32_t num_ranks, DType dtype) {
  struct Member {
    std::vector<int32_t> words;
    int64_t chunk;
    int32_t adapter_slot;
    int joins;  // the step at which it joins
    Rows got = {};
    int64_t num_done = 0;
  };
  std::vector<Member> members = {{Words(30, 2), 1, -1, 0},
                                 {Words(33, 3), 16, 0, 2},
                                 {Words(9, 4), 3, 1, 0},
                                 {Words(50, 5), 7, 0, 4},
                                 {Words(60, 6), 60, -1, 5}};
  RankedSession session = Session(config, num_ranks, dtype);
  for (int step = 0; step < 40; ++step) {
    std::vector<Chunk> chunks;
    std::vector<Member*> owners;  // of each row
    for (size_t i = 0; i < members.size(); ++i) {
      Member& member = members[i];
      const auto left = static_cast<int64_t>(member.words.size()) - member.num_done;
      const int64_t n = step < member.joins ? 0 : std::min(left, member.chunk);
      if (n == 0) continue;
      const auto begin = member.words.begin() + member.num_done;
      chunks.push_back({static_cast<int32_t>(i), {begin, begin + n}, member.adapter_slot});
      member.num_done += n;
      owners.insert(owners.end(), static_cast<size_t>(n), &member);
    }
    if (chunks.empty()) break;
    Rows logits = session.Step(chunks);
    for (size_t row = 0; row < owners.size(); ++row) {
      owners[row]->got.push_back(std::move(logits[row]));
    }
  }
  for (const Member& member : members) {
    RankedSession alone = Session(config, num_ranks, dtype);
    EXPECT_EQ(member.got, alone.Step({{0, member.words, member.adapter_slot}}));
  }
}

TEST_P(RanksTest, CompanyDoesNotChangeABit) {
  const auto& [num_ranks, dtype] = GetParam();
  for (const ModelConfig& config : {BiasedModel(), NormedModel()}) {
    SCOPED_TRACE(ArchitectureName(config.architecture));
    ExpectCompanyChangesNoBit(config, num_ranks, dtype);
  }
}

// Each number of ranks sums in an order of its own; the numbers are the same within rounding.
void ExpectRanksComputeTheSame(const ModelConfig& config, int32_t num_ranks, DType dtype) {
  RankedSession one = Session(config, 1, dtype);
  RankedSession several = Session(config, num_ranks, dtype);
  for (const int32_t adapter_slot : {-1, 0, 1}) {
    const std::vector<Chunk> chunks = {{adapter_slot, Words(41, 1), adapter_slot}};
    const Rows expected = one.Step(chunks);
    const Rows got = several.Step(chunks);
    ASSERT_EQ(got.size(), expected.size());
    std::vector<float> golden;
    for (const auto& row : expected) golden.insert(golden.end(), row.begin(), row.end());
    EXPECT_LT(LargestDifference(got, golden), dtype == DType::kF32 ? 1e-4 : 2e-3)
        << "adapter " << adapter_slot;
  }
}

TEST_P(RanksTest, AsManyAsThereAreComputeTheSame) {
  const auto& [num_ranks, dtype] = GetParam();
  for (const ModelConfig& config : {BiasedModel(), NormedModel()}) {
    SCOPED_TRACE(ArchitectureName(config.architecture));
    ExpectRanksComputeTheSame(config, num_ranks, dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, RanksTest,
                         ::testing::Combine(::testing::Values(1, 2, 4),
                                            ::testing::Values(DType::kF32, DType::kBF16)),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_ranks_" +
                                  std::string(DTypeName(std::get<1>(info.param)));
                         });

// What ranks hold together is the whole model, and what they hold twice is little.
TEST(RankWeightsTest, BytesAreShared) {
  const std::string dir = SourcePath("demo/base");
  const ModelConfig config = *LoadModelConfig(dir);
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  const int64_t whole = LoadWeights(dir, config, TypesOf(DType::kBF16), stream)->bytes();
  EXPECT_EQ(whole, WeightsBytes(config, TypesOf(DType::kBF16), {}));
  for (const int32_t num_ranks : {2, 4}) {
    const ModelConfig shard = ShardConfig(config, num_ranks);
    int64_t sum = 0;
    for (int32_t rank = 0; rank < num_ranks; ++rank) {
      int64_t done_at_end = 0;
      const auto progress = [&](int64_t done, int64_t) { done_at_end = done; };
      const int64_t bytes =
          LoadWeights(dir, config, TypesOf(DType::kBF16), stream, progress, {rank, num_ranks})
              ->bytes();
      EXPECT_EQ(bytes, WeightsBytes(shard, TypesOf(DType::kBF16), {}, num_ranks));
      EXPECT_EQ(done_at_end, config.num_parameters());
      sum += bytes;
    }
    EXPECT_GE(sum, whole);
    EXPECT_LE(sum, whole * 107 / 100);
  }
}

// A rank has the columns of its heads.
TEST(RankWeightsTest, NormsOverAllHeadsAreCut) {
  const std::string dir = SourcePath("tests/goldens/olmo2");
  const ModelConfig config = *LoadModelConfig(dir);
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  const ServedTypes types = TypesOf(DType::kF32);
  const ModelWeights whole = *LoadWeights(dir, config, types, stream);
  for (const int32_t num_ranks : {2, 4}) {
    const ModelConfig shard = ShardConfig(config, num_ranks);
    for (int32_t rank = 0; rank < num_ranks; ++rank) {
      const ModelWeights part = *LoadWeights(dir, config, types, stream, {}, {rank, num_ranks});
      EXPECT_EQ(part.bytes(), WeightsBytes(shard, types, {}, num_ranks));
      const auto expect_slice = [&](const Buffer& got, const Buffer& all, const IndexRange& heads) {
        const int64_t head_bytes = config.head_dim * int64_t{sizeof(float)};
        ASSERT_EQ(got.bytes(), heads.size() * head_bytes);
        EXPECT_EQ(std::memcmp(got.data(), all.as<char>() + heads.begin * head_bytes,
                              static_cast<size_t>(got.bytes())),
                  0);
      };
      const LayerWeights& layer = part.layers[1];
      expect_slice(layer.q_norm, whole.layers[1].q_norm, HeadsOf(config, {rank, num_ranks}));
      expect_slice(layer.k_norm, whole.layers[1].k_norm, KvHeadsOf(config, {rank, num_ranks}));
    }
  }
}

}  // namespace transformer_ranks_test
}  // namespace graft
