#include "kernels/embedding/embedding.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace embedding_test {

using testing::ForEachDevice;
using testing::Input;
using testing::Output;
using testing::Shared;

struct Case {
  int64_t num_tokens;
  int64_t n;
  int64_t misalign;
};

const Case kCases[] = {{0, 8, 0},  {1, 1, 1},  {5, 15, 1},   {2, 16, 0},
                       {3, 33, 3}, {7, 64, 1}, {90, 515, 1}, {1, 4096, 0}};
constexpr int32_t kVocab = 23;

template <typename T>
void ExpectMatchesReference(const Case& c, float scale) {
  SCOPED_TRACE(std::to_string(c.num_tokens) + " x " + std::to_string(c.n));
  const auto table = Input<T>::Normal(kVocab * c.n, 1, c.misalign);
  Shared<int32_t> tokens{std::vector<int32_t>(c.num_tokens)};
  for (int64_t i = 0; i < c.num_tokens; ++i)
    tokens[i] = static_cast<int32_t>((i * 7 + 22) % kVocab);
  ForEachDevice([&](Stream& stream) {
    Output<float> out(c.num_tokens * c.n, c.misalign);
    Embedding({.table = table.data(),
               .dtype = DTypeOf<T>(),
               .vocab_size = kVocab,
               .tokens = tokens.data(),
               .out = out.data(),
               .num_tokens = c.num_tokens,
               .n = c.n,
               .scale = scale},
              stream);
    Synchronize(stream);
    EXPECT_TRUE(out.GuardsIntact());
    for (int64_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(out[i], ToFloat(table[tokens[i / c.n] * c.n + i % c.n]) * scale) << i;
    }
  });
}

TEST(EmbeddingTest, MatchesReference) {
  for (const Case& c : kCases) {
    for (const float scale : {1.0f, 55.5f}) {
      ExpectMatchesReference<float>(c, scale);
      ExpectMatchesReference<Bfloat16>(c, scale);
      ExpectMatchesReference<Float16>(c, scale);
    }
  }
}

// The bits must be those of adding what the op writes without `accumulate`.
TEST(EmbeddingTest, AccumulateAddsToTheOutput) {
  for (const Case& c : kCases) {
    const auto table = Input<Bfloat16>::Normal(kVocab * c.n, 1, c.misalign);
    const auto before = Input<float>::Normal(c.num_tokens * c.n, 2, c.misalign);
    Shared<int32_t> tokens{std::vector<int32_t>(c.num_tokens, 5)};
    ForEachDevice([&](Stream& stream) {
      Output<float> apart(c.num_tokens * c.n, c.misalign), added(before, c.misalign);
      EmbeddingArgs args{.table = table.data(),
                         .dtype = DType::kBF16,
                         .vocab_size = kVocab,
                         .tokens = tokens.data(),
                         .out = apart.data(),
                         .num_tokens = c.num_tokens,
                         .n = c.n,
                         .scale = 1.5f};
      Embedding(args, stream);
      args.out = added.data();
      args.accumulate = true;
      Embedding(args, stream);
      Synchronize(stream);
      EXPECT_TRUE(added.GuardsIntact());
      for (int64_t i = 0; i < added.size(); ++i) ASSERT_EQ(added[i], before[i] + apart[i]) << i;
    });
  }
}

// A GPU cannot refuse such tokens: the host has not seen what the step before drew.
TEST(EmbeddingTest, GpuMakesZerosOfTokensOutsideOfTheVocabulary) {
  const auto table = Input<float>::Normal(int64_t{kVocab} * 12, 1);
  const Shared<int32_t> tokens{-1, 2, kVocab};
  testing::ForFirstGpu([&](Stream& stream) {
    Output<float> out(3 * 12);
    Embedding({.table = table.data(),
               .vocab_size = kVocab,
               .tokens = tokens.data(),
               .out = out.data(),
               .num_tokens = 3,
               .n = 12},
              stream);
    Synchronize(stream);
    for (int64_t i = 0; i < 12; ++i) {
      EXPECT_EQ(out[i], 0.0f);
      EXPECT_EQ(out[12 + i], table[24 + i]);
      EXPECT_EQ(out[24 + i], 0.0f);
    }
  });
}

// Ranks' rows, summed up, are the whole table's.
TEST(EmbeddingTest, SlicesHaveZerosForTheWordsOfOthers) {
  const auto table = Input<Bfloat16>::Normal(int64_t{kVocab} * 20, 1);
  const Shared<int32_t> tokens{0, 9, 10, 22, 10};
  ForEachDevice([&](Stream& stream) {
    for (const auto& [first, count] : {std::pair(0, 10), std::pair(10, 13)}) {
      Output<float> out(5 * 20);
      Embedding({.table = table.data() + first * 20,
                 .dtype = DType::kBF16,
                 .vocab_size = count,
                 .tokens = tokens.data(),
                 .out = out.data(),
                 .num_tokens = 5,
                 .n = 20,
                 .is_slice = true,
                 .first_word = first},
                stream);
      Synchronize(stream);
      EXPECT_TRUE(out.GuardsIntact());
      for (int64_t i = 0; i < out.size(); ++i) {
        const int32_t token = tokens[i / 20];
        const bool has = token >= first && token < first + count;
        ASSERT_EQ(out[i], has ? ToFloat(table[token * 20 + i % 20]) : 0.0f) << i;
      }
    }
  });
}

TEST(EmbeddingDeathTest, RefusesTokensOutsideOfTheVocabulary) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  std::vector<float> table(4 * 3), out(3);
  int32_t token = 3;
  EmbeddingArgs args{.table = table.data(),
                     .vocab_size = 4,
                     .tokens = &token,
                     .out = out.data(),
                     .num_tokens = 1,
                     .n = 3};
  Embedding(args, stream);
  token = 4;
  EXPECT_DEATH(Embedding(args, stream), "token 4");
  token = -1;
  EXPECT_DEATH(Embedding(args, stream), "token -1");
  token = 0;
  args.accumulate = args.is_slice = true;
  EXPECT_DEATH(Embedding(args, stream), "each add their own");
  args.accumulate = args.is_slice = false;
  args.out = nullptr;
  EXPECT_DEATH(Embedding(args, stream), "out");
}

}  // namespace embedding_test
}  // namespace graft
