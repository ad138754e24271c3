#include "kernels/virtual_embedding/virtual_embedding.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace virtual_embedding_test {

using testing::ForEachDevice;
using testing::Input;
using testing::Output;
using testing::Shared;

constexpr int32_t kTokens = 9;  // of each adapter
constexpr int32_t kRows = 20;

// Two adapters, in slots 2 and 0. Their rows lie in descending order, `stride` elements apart.
template <typename T>
struct Adapters {
  explicit Adapters(int64_t n)
      : stride((n + 31) / 32 * 32), rows(Input<T>::Normal(2 * kTokens * stride, 1)) {
    for (int32_t i = 0; i < kTokens; ++i) {
      first[static_cast<size_t>(i)] = Row(2, i);
      second[static_cast<size_t>(i)] = Row(0, i);
    }
    table[0] = second.data();
    table[2] = first.data();
  }
  const T* Row(int32_t slot, int32_t token) const {
    return rows.data() + ((slot == 2 ? kTokens : 0) + kTokens - 1 - token) * stride;
  }

  int64_t stride;
  Input<T> rows;
  Shared<const void*> first{std::vector<const void*>(kTokens)};
  Shared<const void*> second{std::vector<const void*>(kTokens)};
  Shared<VirtualRows> table{std::vector<VirtualRows>(3)};
};

template <typename T>
void ExpectMatchesReference(int64_t n, int64_t misalign) {
  SCOPED_TRACE(std::to_string(n));
  const Adapters<T> adapters(n);
  const Shared<VirtualRun> runs{{2, 0, kTokens, 3}, {0, 4, 5, 0}, {0, 0, 2, 17}};
  ForEachDevice([&](Stream& stream) {
    Output<float> out(kRows * n, misalign);
    VirtualEmbedding({.table = adapters.table.data(),
                      .dtype = DTypeOf<T>(),
                      .runs = runs.data(),
                      .num_runs = static_cast<int32_t>(runs.size()),
                      .run_tokens_max = kTokens,
                      .out = out.data(),
                      .n = n},
                     stream);
    Synchronize(stream);
    EXPECT_TRUE(out.GuardsIntact());
    std::vector<bool> written(kRows);
    for (size_t i = 0; i < runs.size(); ++i) {
      const VirtualRun& run = runs[i];
      for (int32_t token = run.token_begin; token < run.token_end; ++token) {
        const int32_t row = run.place + token - run.token_begin;
        written[static_cast<size_t>(row)] = true;
        for (int64_t j = 0; j < n; ++j) {
          const float wanted = ToFloat(adapters.Row(run.adapter_slot, token)[j]);
          ASSERT_EQ(out[row * n + j], wanted) << "row " << row << ", element " << j;
        }
      }
    }
    for (int64_t i = 0; i < out.size(); ++i) {
      ASSERT_TRUE(written[static_cast<size_t>(i / n)] || out.IsUntouched(i)) << i;
    }
  });
}

TEST(VirtualEmbeddingTest, MatchesReference) {
  for (const int64_t n : {1, 7, 16, 33, 64, 515, 4096}) {
    ExpectMatchesReference<float>(n, n % 3);
    ExpectMatchesReference<Bfloat16>(n, n % 3);
    ExpectMatchesReference<Float16>(n, n % 3);
  }
}

TEST(VirtualEmbeddingTest, NoRunsTouchNothing) {
  ForEachDevice([&](Stream& stream) {
    Output<float> out(8);
    VirtualEmbedding({.out = out.data(), .n = 8}, stream);
    Synchronize(stream);
    for (int64_t i = 0; i < out.size(); ++i) EXPECT_TRUE(out.IsUntouched(i));
  });
}

TEST(VirtualEmbeddingDeathTest, RefusesSlotsWithoutVirtualTokens) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  const Adapters<float> adapters(8);
  std::vector<float> out(8);
  VirtualRun run{1, 0, 1, 0};
  VirtualEmbeddingArgs args{.table = adapters.table.data(),
                            .runs = &run,
                            .num_runs = 1,
                            .run_tokens_max = 1,
                            .out = out.data(),
                            .n = 8};
  EXPECT_DEATH(VirtualEmbedding(args, stream), "slot 1 has no virtual tokens");
  run = {0, 0, 2, 0};
  EXPECT_DEATH(VirtualEmbedding(args, stream), "run 0");
}

}  // namespace virtual_embedding_test
}  // namespace graft
