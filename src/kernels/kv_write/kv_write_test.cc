#include "kernels/kv_write/kv_write.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace kv_write_test {

using testing::BitEqual;
using testing::ForEachDevice;
using testing::Input;
using testing::Output;
using testing::Shared;

struct Case {
  int32_t num_rows;
  int32_t num_kv_heads;
  int32_t head_dim;
  int32_t page_tokens;
  int64_t gap;
  int64_t misalign;
};

const Case kCases[] = {{0, 1, 8, 4, 0, 0},    {1, 1, 1, 1, 0, 1},   {5, 2, 17, 4, 3, 1},
                       {3, 3, 64, 16, 0, 0},  {9, 1, 80, 3, 11, 2}, {4, 8, 128, 16, 5, 1},
                       {70, 4, 66, 16, 1, 3}, {2, 1, 256, 64, 0, 1}};

constexpr int32_t kLayers = 3;

template <typename T>
void ExpectMatchesReference(const Case& c) {
  SCOPED_TRACE(std::to_string(c.num_rows) + " rows, head_dim " + std::to_string(c.head_dim));
  const KvLayout layout{.num_layers = kLayers,
                        .num_kv_heads = c.num_kv_heads,
                        .head_dim = c.head_dim,
                        .page_tokens = c.page_tokens,
                        .dtype = DTypeOf<T>()};
  const int32_t num_pages = c.num_rows / c.page_tokens + 2;
  const int64_t stride = int64_t{c.num_kv_heads} * c.head_dim + c.gap;
  const auto k = Input<float>::Normal(c.num_rows * stride, 1, c.misalign);
  const auto v = Input<float>::Normal(c.num_rows * stride, 2, c.misalign);
  // Row i goes to position i. Pages are dealt from the last one down, and some rows are padding.
  Shared<int32_t> pages{std::vector<int32_t>(c.num_rows)};
  Shared<int32_t> slots{std::vector<int32_t>(c.num_rows)};
  for (int32_t i = 0; i < c.num_rows; ++i) {
    const bool pads = i % 4 == 3;
    pages[i] = pads ? -1 : num_pages - 1 - i / c.page_tokens;
    slots[i] = pads ? -7 : i % c.page_tokens;
  }
  ForEachDevice([&](Stream& stream) {
    Output<T> pool(num_pages * layout.PageElements(), c.misalign);
    std::vector<bool> written(pool.size());
    KvWrite({.layout = layout,
             .layer = 1,
             .pool = pool.data(),
             .k = k.data(),
             .v = v.data(),
             .row_stride = stride,
             .row_page = pages.data(),
             .row_slot = slots.data(),
             .num_rows = c.num_rows},
            stream);
    Synchronize(stream);
    EXPECT_TRUE(pool.GuardsIntact());
    for (int32_t row = 0; row < c.num_rows; ++row) {
      if (pages[row] < 0) continue;
      for (int64_t i = 0; i < int64_t{c.num_kv_heads} * c.head_dim; ++i) {
        const int64_t at =
            layout.KeyOffset(pages[row], 1, static_cast<int32_t>(i / c.head_dim), slots[row]) +
            i % c.head_dim;
        const T key = FromFloat<T>(k[row * stride + i]);
        const T value = FromFloat<T>(v[row * stride + i]);
        ASSERT_TRUE(BitEqual(&pool[at], &key, 1)) << "row " << row << ", element " << i;
        ASSERT_TRUE(BitEqual(&pool[at + layout.KeyElements()], &value, 1));
        written[at] = written[at + layout.KeyElements()] = true;
      }
    }
    for (int64_t i = 0; i < pool.size(); ++i) {
      ASSERT_TRUE(written[i] || pool.IsUntouched(i)) << i;
    }
  });
}

TEST(KvWriteTest, MatchesReference) {
  for (const Case& c : kCases) {
    ExpectMatchesReference<float>(c);
    ExpectMatchesReference<Bfloat16>(c);
    ExpectMatchesReference<Float16>(c);
  }
}

TEST(KvWriteDeathTest, RefusesBadPlaces) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  std::vector<float> pool(64), k(8), v(8);
  int32_t page = 0, slot = 3;
  KvWriteArgs args{.layout = {.num_layers = 1,
                              .num_kv_heads = 1,
                              .head_dim = 8,
                              .page_tokens = 4,
                              .dtype = DType::kF32},
                   .pool = pool.data(),
                   .k = k.data(),
                   .v = v.data(),
                   .row_stride = 8,
                   .row_page = &page,
                   .row_slot = &slot,
                   .num_rows = 1};
  KvWrite(args, stream);
  slot = 4;
  EXPECT_DEATH(KvWrite(args, stream), "slot 4");
  page = -1;
  KvWrite(args, stream);
  page = 0;
  slot = 0;
  args.layer = 1;
  EXPECT_DEATH(KvWrite(args, stream), "layer 1");
  args.layer = 0;
  args.row_stride = 7;
  EXPECT_DEATH(KvWrite(args, stream), "row_stride");
}

}  // namespace kv_write_test
}  // namespace graft
