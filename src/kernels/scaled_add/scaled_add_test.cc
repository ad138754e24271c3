#include "kernels/scaled_add/scaled_add.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace scaled_add_test {

using testing::ForEachDevice;
using testing::Input;
using testing::Output;

TEST(ScaledAddTest, MatchesReference) {
  for (const int64_t n : {0, 1, 3, 4, 17, 1000, 4096, 4099, 20000}) {
    for (const int64_t misalign : {0, 1}) {
      for (const bool accumulate : {false, true}) {
        const auto x = Input<float>::Normal(n, 1, misalign);
        const auto before = Input<float>::Normal(n, 2, misalign);
        ForEachDevice([&](Stream& stream) {
          Output<float> y(before, misalign);
          ScaledAdd(
              {.x = x.data(), .y = y.data(), .n = n, .scale = -0.37f, .accumulate = accumulate},
              stream);
          Synchronize(stream);
          EXPECT_TRUE(y.GuardsIntact());
          for (int64_t i = 0; i < n; ++i) {
            const double added = accumulate ? before.At(i) : 0.0;
            const double expected = added + double{-0.37f} * x.At(i);
            ASSERT_NEAR(y.At(i), expected, 1e-6 * std::max(1.0, std::abs(expected))) << i;
          }
        });
      }
    }
  }
}

// What a block reads without a norm.
TEST(ScaledAddTest, RoundsToTheDtype) {
  for (const int64_t n : {5, 4096, 4099}) {
    const auto x = Input<float>::Normal(n, 6);
    ForEachDevice([&](Stream& stream) {
      const auto expect = [&]<typename T>(DType dtype, float scale) {
        Output<T> y(n);
        ScaledAdd({.x = x.data(), .y = y.data(), .y_dtype = dtype, .n = n, .scale = scale}, stream);
        Synchronize(stream);
        EXPECT_TRUE(y.GuardsIntact());
        for (int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(ToFloat(y[i]), ToFloat(FromFloat<T>(x[i] * scale))) << i;
        }
      };
      for (const float scale : {1.0f, 0.25f}) {
        expect.operator()<float>(DType::kF32, scale);
        expect.operator()<Bfloat16>(DType::kBF16, scale);
        expect.operator()<Float16>(DType::kF16, scale);
      }
    });
  }
}

TEST(ScaledAddTest, InPlace) {
  const auto x = Input<float>::Normal(4099, 3);
  ForEachDevice([&](Stream& stream) {
    Output<float> apart(4099);
    ScaledAdd({.x = x.data(), .y = apart.data(), .n = 4099, .scale = 0.3f}, stream);
    Output<float> y(x, 0);
    ScaledAdd({.x = y.data(), .y = y.data(), .n = 4099, .scale = 0.3f}, stream);
    Synchronize(stream);
    EXPECT_TRUE(testing::BitEqual(y.data(), apart.data(), 4099));
  });
}

// Tasks and vectors are cut at other places here. The bits of an element must not change.
TEST(ScaledAddTest, ElementsDoNotDependOnTheirNeighbours) {
  const auto x = Input<float>::Normal(30000, 4);
  const auto before = Input<float>::Normal(30000, 5);
  ForEachDevice([&](Stream& stream) {
    Output<float> together(before, 0), apart(before, 0);
    ScaledAddArgs args{
        .x = x.data(), .y = together.data(), .n = 30000, .scale = 0.22f, .accumulate = true};
    ScaledAdd(args, stream);
    for (int64_t i = 0; i < 30000; i += 37) {
      args.x = x.data() + i;
      args.y = apart.data() + i;
      args.n = std::min<int64_t>(37, 30000 - i);
      ScaledAdd(args, stream);
    }
    Synchronize(stream);
    EXPECT_TRUE(testing::BitEqual(together.data(), apart.data(), 30000));
  });
}

TEST(ScaledAddDeathTest, RefusesBadArguments) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  float x = 1.0f, y = 2.0f;
  ScaledAdd({.x = &x, .y = &y, .n = 1, .scale = 2.0f, .accumulate = true}, stream);
  EXPECT_EQ(y, 4.0f);
  EXPECT_DEATH(ScaledAdd({.x = &x, .y = &x, .n = 1, .accumulate = true}, stream), "in place");
  EXPECT_DEATH(ScaledAdd({.x = &x, .n = 1}, stream), "y");
  ScaledAddArgs args{.x = &x, .y = &y, .y_dtype = DType::kBF16, .n = 1, .accumulate = true};
  EXPECT_DEATH(ScaledAdd(args, stream), "sums are fp32");
  args = {.x = &x, .y = &x, .y_dtype = DType::kBF16, .n = 1};
  EXPECT_DEATH(ScaledAdd(args, stream), "keep their size");
}

}  // namespace scaled_add_test
}  // namespace graft
