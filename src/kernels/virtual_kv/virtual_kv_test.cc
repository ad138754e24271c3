#include "kernels/virtual_kv/virtual_kv.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace virtual_kv_test {

using testing::BitEqual;
using testing::ForEachDevice;
using testing::Input;
using testing::Output;
using testing::Shared;

constexpr int32_t kTokens = 11;  // of the adapter

struct Case {
  int32_t num_kv_heads;
  int32_t head_dim;
  int32_t page_tokens;
  int64_t misalign;
};

const Case kCases[] = {{1, 1, 1, 1},  {2, 17, 4, 1},  {3, 64, 16, 0},
                       {1, 80, 3, 2}, {4, 128, 8, 0}, {1, 256, 4, 1}};

// The adapter is in slot 1. One sequence takes all of it, another one goes on from a page's middle.
template <typename T>
void ExpectMatchesReference(const Case& c) {
  SCOPED_TRACE("head_dim " + std::to_string(c.head_dim));
  const KvLayout layout{.num_layers = 3,
                        .num_kv_heads = c.num_kv_heads,
                        .head_dim = c.head_dim,
                        .page_tokens = c.page_tokens,
                        .dtype = DTypeOf<T>()};
  const int64_t row_elements = layout.PageElements() / c.page_tokens;
  const int64_t stride = (row_elements + 31) / 32 * 32;
  const auto rows = Input<T>::Normal(kTokens * stride, 1);
  Shared<const void*> pointers{std::vector<const void*>(kTokens)};
  for (int32_t i = 0; i < kTokens; ++i) {
    pointers[static_cast<size_t>(i)] = rows.data() + (kTokens - 1 - i) * stride;
  }
  const Shared<VirtualRows> table{nullptr, pointers.data()};
  // Unused, then the pages of the two sequences.
  const int32_t num_pages = (kTokens + c.page_tokens - 1) / c.page_tokens;
  Shared<int32_t> pages{std::vector<int32_t>(static_cast<size_t>(1 + 2 * num_pages))};
  pages[0] = -5;
  for (int32_t i = 0; i < 2 * num_pages; ++i) pages[static_cast<size_t>(1 + i)] = 2 * num_pages - i;
  const Shared<VirtualRun> runs{{1, 0, kTokens, 1}, {1, 3, kTokens - 1, 1 + num_pages}};
  ForEachDevice([&](Stream& stream) {
    Output<T> pool((2 * num_pages + 1) * layout.PageElements(), c.misalign);
    std::vector<bool> written(static_cast<size_t>(pool.size()));
    VirtualKv({.layout = layout,
               .pool = pool.data(),
               .table = table.data(),
               .runs = runs.data(),
               .num_runs = 2,
               .run_tokens_max = kTokens,
               .pages = pages.data()},
              stream);
    Synchronize(stream);
    EXPECT_TRUE(pool.GuardsIntact());
    for (size_t i = 0; i < runs.size(); ++i) {
      for (int32_t token = runs[i].token_begin; token < runs[i].token_end; ++token) {
        const auto at = static_cast<size_t>(runs[i].place + token / c.page_tokens);
        const T* row = static_cast<const T*>(pointers[static_cast<size_t>(token)]);
        for (int64_t j = 0; j < row_elements; ++j) {
          const auto head = static_cast<int32_t>(j / c.head_dim);
          const int64_t element = layout.KeyOffset(pages[at], head / c.num_kv_heads / 2,
                                                   head % c.num_kv_heads, token % c.page_tokens) +
                                  head / c.num_kv_heads % 2 * layout.KeyElements() + j % c.head_dim;
          ASSERT_TRUE(BitEqual(&pool[element], row + j, 1)) << "token " << token << ", " << j;
          written[static_cast<size_t>(element)] = true;
        }
      }
    }
    for (int64_t i = 0; i < pool.size(); ++i) {
      ASSERT_TRUE(written[static_cast<size_t>(i)] || pool.IsUntouched(i)) << i;
    }
  });
}

TEST(VirtualKvTest, MatchesReference) {
  for (const Case& c : kCases) {
    ExpectMatchesReference<float>(c);
    ExpectMatchesReference<Bfloat16>(c);
    ExpectMatchesReference<Float16>(c);
  }
}

TEST(VirtualKvDeathTest, RefusesSlotsWithoutVirtualTokens) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  std::vector<float> pool(64);
  const VirtualRows table[] = {nullptr};
  const VirtualRun run{0, 0, 1, 0};
  const int32_t page = 0;
  const VirtualKvArgs args{.layout = {.num_layers = 1,
                                      .num_kv_heads = 1,
                                      .head_dim = 8,
                                      .page_tokens = 4,
                                      .dtype = DType::kF32},
                           .pool = pool.data(),
                           .table = table,
                           .runs = &run,
                           .num_runs = 1,
                           .run_tokens_max = 1,
                           .pages = &page};
  EXPECT_DEATH(VirtualKv(args, stream), "slot 0 has no virtual tokens");
}

}  // namespace virtual_kv_test
}  // namespace graft
