// Compares with the ops that this op replaces, run on the same device.
#include "kernels/rope_kv_write/rope_kv_write.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/common/op_test_util.h"
#include "kernels/kv_write/kv_write.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"

namespace graft {
namespace rope_kv_write_test {

using testing::ForEachDevice;
using testing::Input;
using testing::Output;
using testing::Shared;

struct Case {
  int32_t num_rows;
  int32_t num_q_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  int32_t page_tokens;
  int64_t gap;
  int64_t misalign;
  int32_t rotary_dim = 0;  // 0: all dimensions rotate
  bool interleaved = false;
  int32_t rotates() const { return rotary_dim > 0 ? rotary_dim : head_dim; }
};

const Case kCases[] = {{0, 1, 1, 8, 4, 0, 0},
                       {1, 1, 1, 2, 1, 0, 1},
                       {5, 4, 2, 18, 4, 3, 1},
                       {3, 8, 8, 64, 16, 0, 0},
                       {9, 5, 1, 80, 3, 16, 0},
                       {4, 32, 8, 128, 16, 0, 0},
                       {70, 4, 4, 66, 16, 1, 3},
                       {2, 3, 1, 256, 64, 0, 0},
                       {2, 3, 1, 256, 64, 1, 1},
                       {3, 4, 2, 128, 16, 0, 0, 96},
                       {5, 2, 1, 32, 4, 3, 1, 24},
                       {2, 3, 3, 256, 2, 0, 0, 64},
                       {7, 2, 1, 18, 4, 1, 0, 16},
                       {3, 6, 2, 96, 4, 0, 0},
                       // Interleaved: GLM-4's heads, and those that are no whole runs.
                       {5, 8, 2, 128, 16, 0, 0, 64, true},
                       {3, 2, 1, 256, 4, 0, 0, 0, true},
                       {5, 4, 2, 18, 4, 3, 1, 0, true},
                       {7, 2, 1, 18, 4, 1, 0, 16, true},
                       {2, 3, 3, 256, 2, 0, 0, 128, true},
                       {3, 1, 1, 32, 4, 3, 1, 24, true}};

constexpr int32_t kLayers = 2;
constexpr int32_t kPositionsMax = 50;

// The operands of a case, without the two outputs.
template <typename T>
struct Operands {
  explicit Operands(const Case& c)
      : layout{.num_layers = kLayers,
               .num_kv_heads = c.num_kv_heads,
               .head_dim = c.head_dim,
               .page_tokens = c.page_tokens,
               .dtype = DTypeOf<T>()},
        num_pages(c.num_rows / c.page_tokens + 2),
        stride(int64_t{c.num_q_heads + 2 * c.num_kv_heads} * c.head_dim + c.gap),
        qkv(Input<float>::Normal(c.num_rows * stride, 1, c.misalign)),
        cos(Input<float>::Normal(kPositionsMax * c.rotates() / 2, 2, c.misalign)),
        sin(Input<float>::Normal(kPositionsMax * c.rotates() / 2, 3, c.misalign)),
        q_weight(Input<float>::Normal(c.head_dim, 4, c.misalign)),
        k_weight(Input<float>::Normal(c.head_dim, 5, c.misalign)),
        positions(std::vector<int32_t>(c.num_rows)),
        pages(std::vector<int32_t>(c.num_rows)),
        slots(std::vector<int32_t>(c.num_rows)) {
    for (int32_t i = 0; i < c.num_rows; ++i) {
      positions[i] = kPositionsMax - 1 - i * 7 % kPositionsMax;
      pages[i] = i % 5 == 4 ? -1 : num_pages - 1 - i / c.page_tokens;  // some rows are padding
      slots[i] = i % 5 == 4 ? 0 : i % c.page_tokens;
    }
  }

  KvLayout layout;
  int32_t num_pages;
  int64_t stride;
  Input<float> qkv, cos, sin, q_weight, k_weight;
  Shared<int32_t> positions, pages, slots;
};

template <typename T>
void RunApart(const Case& c, const Operands<T>& operands, bool normalizes, float* qkv, T* pool,
              Stream& stream) {
  float* k = qkv + int64_t{c.num_q_heads} * c.head_dim;
  const auto norm = [&](float* x, const float* weight, int32_t num_heads) {
    RmsNorm({.x = x,
             .x_stride = operands.stride,
             .weight = weight,
             .out = x,
             .out_stride = operands.stride,
             .num_tokens = c.num_rows,
             .num_heads = num_heads,
             .n = c.head_dim,
             .epsilon = 1e-3f},
            stream);
  };
  if (normalizes) {
    norm(qkv, operands.q_weight.data(), c.num_q_heads);
    norm(k, operands.k_weight.data(), c.num_kv_heads);
  }
  Rope({.x = qkv,
        .x_stride = operands.stride,
        .num_tokens = c.num_rows,
        .num_heads = c.num_q_heads + c.num_kv_heads,
        .head_dim = c.head_dim,
        .rotary_dim = c.rotates(),
        .positions = operands.positions.data(),
        .cos = operands.cos.data(),
        .sin = operands.sin.data(),
        .interleaved = c.interleaved},
       stream);
  KvWrite({.layout = operands.layout,
           .layer = 1,
           .pool = pool,
           .k = k,
           .v = k + int64_t{c.num_kv_heads} * c.head_dim,
           .row_stride = operands.stride,
           .row_page = operands.pages.data(),
           .row_slot = operands.slots.data(),
           .num_rows = c.num_rows},
          stream);
}

template <typename T>
void ExpectSameAsApart(const Case& c, bool normalizes) {
  SCOPED_TRACE(std::to_string(c.num_rows) + " rows, head_dim " + std::to_string(c.head_dim));
  const Operands<T> operands(c);
  ForEachDevice([&](Stream& stream) {
    const int64_t pool_elements = operands.num_pages * operands.layout.PageElements();
    Output<float> together(operands.qkv, c.misalign), apart(operands.qkv, c.misalign);
    Output<T> pool(pool_elements, c.misalign), pool_apart(pool_elements, c.misalign);
    RopeKvWrite({.qkv = together.data(),
                 .row_stride = operands.stride,
                 .num_rows = c.num_rows,
                 .num_q_heads = c.num_q_heads,
                 .q_norm_weight = normalizes ? operands.q_weight.data() : nullptr,
                 .k_norm_weight = normalizes ? operands.k_weight.data() : nullptr,
                 .norm_epsilon = 1e-3f,
                 .positions = operands.positions.data(),
                 .rotary_dim = c.rotates(),
                 .interleaved = c.interleaved,
                 .cos = operands.cos.data(),
                 .sin = operands.sin.data(),
                 .layout = operands.layout,
                 .layer = 1,
                 .pool = pool.data(),
                 .row_page = operands.pages.data(),
                 .row_slot = operands.slots.data()},
                stream);
    RunApart<T>(c, operands, normalizes, apart.data(), pool_apart.data(), stream);
    Synchronize(stream);
    EXPECT_TRUE(together.GuardsIntact());
    EXPECT_TRUE(pool.GuardsIntact());
    // A norm may sum in another order, so a few last bits or one step of the pool's type may
    // differ.
    const double tolerance = normalizes ? 4e-6 : 0.0;
    for (int64_t i = 0; i < together.size(); ++i) {
      ASSERT_NEAR(together[i], apart[i], tolerance * (1.0 + std::fabs(apart.At(i)))) << i;
    }
    const double step = normalizes ? 2.0 * testing::ToleranceOf(DTypeOf<T>()) : 0.0;
    for (int64_t i = 0; i < pool.size(); ++i) {
      ASSERT_EQ(pool.HoldsSentinel(i), pool_apart.HoldsSentinel(i)) << i;
      if (pool_apart.HoldsSentinel(i)) continue;
      ASSERT_NEAR(pool.At(i), pool_apart.At(i), step * (1.0 + std::fabs(pool_apart.At(i)))) << i;
    }
  });
}

TEST(RopeKvWriteTest, EqualsTheOpsThatItStandsFor) {
  for (const Case& c : kCases) {
    for (const bool normalizes : {false, true}) {
      ExpectSameAsApart<float>(c, normalizes);
      ExpectSameAsApart<Bfloat16>(c, normalizes);
      ExpectSameAsApart<Float16>(c, normalizes);
    }
  }
}

template <typename T>
RopeKvWriteArgs ArgsOf(const Case& c, const Operands<T>& operands, float* qkv, T* pool) {
  return {.qkv = qkv,
          .row_stride = operands.stride,
          .num_rows = c.num_rows,
          .num_q_heads = c.num_q_heads,
          .q_norm_weight = operands.q_weight.data(),
          .k_norm_weight = operands.k_weight.data(),
          .positions = operands.positions.data(),
          .rotary_dim = c.rotates(),
          .interleaved = c.interleaved,
          .cos = operands.cos.data(),
          .sin = operands.sin.data(),
          .layout = operands.layout,
          .pool = pool,
          .row_page = operands.pages.data(),
          .row_slot = operands.slots.data()};
}

// What a backward of the norms needs, beside the bits that are made without it. U: fp32 on the CPU,
// the pool's type on a GPU.
template <typename T, typename U>
void ExpectKeepsUnnormed(const Case& c, Stream& stream) {
  SCOPED_TRACE(std::to_string(c.num_rows) + " rows, head_dim " + std::to_string(c.head_dim));
  const Operands<T> operands(c);
  const int64_t n = int64_t{c.num_q_heads + c.num_kv_heads} * c.head_dim;
  const int64_t pool_elements = operands.num_pages * operands.layout.PageElements();
  Output<float> plain(operands.qkv, c.misalign), qkv(operands.qkv, c.misalign);
  Output<T> plain_pool(pool_elements, c.misalign), pool(pool_elements, c.misalign);
  Output<U> unnormed(c.num_rows * n, c.misalign);
  RopeKvWrite(ArgsOf(c, operands, plain.data(), plain_pool.data()), stream);
  RopeKvWriteArgs args = ArgsOf(c, operands, qkv.data(), pool.data());
  args.unnormed = unnormed.data();
  RopeKvWrite(args, stream);
  Synchronize(stream);
  EXPECT_TRUE(unnormed.GuardsIntact() && qkv.GuardsIntact() && pool.GuardsIntact());
  EXPECT_TRUE(testing::BitEqual(plain.data(), qkv.data(), qkv.size()));
  EXPECT_TRUE(testing::BitEqual(plain_pool.data(), pool.data(), pool.size()));
  for (int64_t i = 0; i < unnormed.size(); ++i) {
    const U expected = FromFloat<U>(operands.qkv[i / n * operands.stride + i % n]);
    ASSERT_TRUE(testing::BitEqual(&unnormed[i], &expected, 1)) << i;
  }
}

// Queries alone are multiplied, by the number of their position, which here is a power of two: the
// bits of all else are those without it.
template <typename T>
void ExpectScalesQueries(const Case& c, Stream& stream) {
  SCOPED_TRACE(std::to_string(c.num_rows) + " rows, head_dim " + std::to_string(c.head_dim));
  const Operands<T> operands(c);
  const int64_t queries = int64_t{c.num_q_heads} * c.head_dim;
  const int64_t pool_elements = operands.num_pages * operands.layout.PageElements();
  std::vector<float> powers;
  for (int32_t i = 0; i < kPositionsMax; ++i) powers.push_back(std::ldexp(1.0f, i % 5 - 2));
  const Shared<float> scales(powers);
  Output<float> plain(operands.qkv, c.misalign), qkv(operands.qkv, c.misalign);
  Output<T> plain_pool(pool_elements, c.misalign), pool(pool_elements, c.misalign);
  RopeKvWrite(ArgsOf(c, operands, plain.data(), plain_pool.data()), stream);
  RopeKvWriteArgs args = ArgsOf(c, operands, qkv.data(), pool.data());
  args.query_scale = scales.data();
  RopeKvWrite(args, stream);
  Synchronize(stream);
  EXPECT_TRUE(qkv.GuardsIntact() && pool.GuardsIntact());
  EXPECT_TRUE(testing::BitEqual(plain_pool.data(), pool.data(), pool.size()));
  for (int64_t i = 0; i < qkv.size(); ++i) {
    const int64_t row = i / operands.stride;
    const bool is_query = row < c.num_rows && i % operands.stride < queries;
    const float scale = is_query ? scales[operands.positions[row]] : 1.0f;
    const float expected = plain[i] * scale;
    ASSERT_TRUE(testing::BitEqual(&qkv[i], &expected, 1)) << i;
  }
}

TEST(RopeKvWriteTest, ScalesQueriesByTheirPositions) {
  for (const Case& c : kCases) {
    ForEachDevice([&](Stream& stream) {
      ExpectScalesQueries<float>(c, stream);
      ExpectScalesQueries<Bfloat16>(c, stream);
    });
  }
}

TEST(RopeKvWriteTest, KeepsWhatTheNormsTook) {
  for (const Case& c : kCases) {
    testing::ForEachCpu([&](Stream& stream) {
      ExpectKeepsUnnormed<float, float>(c, stream);
      ExpectKeepsUnnormed<Float16, float>(c, stream);
    });
    testing::ForFirstGpu([&](Stream& stream) {
      ExpectKeepsUnnormed<float, float>(c, stream);
      ExpectKeepsUnnormed<Bfloat16, Bfloat16>(c, stream);
    });
  }
}

// What a backward of attention on the CPU needs: keys and values as their pages have them.
template <typename T>
void ExpectCopiesAsInPages(const Case& c, Stream& stream) {
  SCOPED_TRACE(std::to_string(c.num_rows) + " rows, head_dim " + std::to_string(c.head_dim));
  const Operands<T> operands(c);
  const int64_t queries = int64_t{c.num_q_heads} * c.head_dim;
  const int64_t n = queries + int64_t{2} * c.num_kv_heads * c.head_dim;
  const int64_t pool_elements = operands.num_pages * operands.layout.PageElements();
  Output<float> qkv(operands.qkv, c.misalign), copy(c.num_rows * n, c.misalign);
  Output<T> pool(pool_elements, c.misalign);
  RopeKvWriteArgs args = ArgsOf(c, operands, qkv.data(), pool.data());
  args.copy = copy.data();
  RopeKvWrite(args, stream);
  EXPECT_TRUE(copy.GuardsIntact() && qkv.GuardsIntact());
  for (int64_t i = 0; i < copy.size(); ++i) {
    const float made = qkv[i / n * operands.stride + i % n];
    const float expected = i % n < queries ? made : ToFloat(FromFloat<T>(made));
    ASSERT_EQ(copy[i], expected) << i;
  }
}

TEST(RopeKvWriteTest, CopiesWhatAttentionTakes) {
  for (const Case& c : kCases) {
    testing::ForEachCpu([&](Stream& stream) {
      ExpectCopiesAsInPages<float>(c, stream);
      ExpectCopiesAsInPages<Float16>(c, stream);
    });
  }
}

TEST(RopeKvWriteDeathTest, RefusesBadShapes) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  std::vector<float> qkv(24), pool(16), table(8);
  int32_t position = 0, page = 0, slot = 0;
  RopeKvWriteArgs args{.qkv = qkv.data(),
                       .row_stride = 24,
                       .num_rows = 1,
                       .num_q_heads = 1,
                       .positions = &position,
                       .rotary_dim = 8,
                       .cos = table.data(),
                       .sin = table.data(),
                       .layout = {.num_layers = 1,
                                  .num_kv_heads = 1,
                                  .head_dim = 8,
                                  .page_tokens = 1,
                                  .dtype = DType::kF32},
                       .pool = pool.data(),
                       .row_page = &page,
                       .row_slot = &slot};
  RopeKvWrite(args, stream);
  args.row_stride = 23;
  EXPECT_DEATH(RopeKvWrite(args, stream), "row_stride");
  args.row_stride = 24;
  args.q_norm_weight = table.data();
  EXPECT_DEATH(RopeKvWrite(args, stream), "k_norm_weight");
  args.q_norm_weight = nullptr;
  args.unnormed = pool.data();
  EXPECT_DEATH(RopeKvWrite(args, stream), "there are no norms");
  args.unnormed = nullptr;
  args.rotary_dim = 6;
  EXPECT_DEATH(RopeKvWrite(args, stream), "rotary_dim 6 of 8");
  args.layout.head_dim = 7;
  EXPECT_DEATH(RopeKvWrite(args, stream), "halves");
}

}  // namespace rope_kv_write_test
}  // namespace graft
