#include "kernels/layer_norm/layer_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace layer_norm_test {

using testing::ForEachDevice;
using testing::Input;
using testing::IsClose;
using testing::Output;
using testing::Reference;
using testing::Shared;
using testing::ToleranceOf;

struct Case {
  int64_t num_rows;
  int64_t n;
  int64_t misalign;
};

const Case kCases[] = {{0, 8, 0},     {1, 1, 0},    {1, 7, 1},     {3, 16, 0},  {2, 17, 2},
                       {5, 63, 3},    {2, 65, 0},   {1, 2048, 1},  {9, 128, 5}, {1, 4100, 0},
                       {41, 1001, 1}, {1, 9001, 0}, {2, 16384, 0}, {3, 1600, 0}};

// The values lie around 2, so that a mean that is left in shows.
template <typename T>
void ExpectMatchesReference(const Case& c) {
  SCOPED_TRACE(std::to_string(c.num_rows) + " x " + std::to_string(c.n));
  auto x = Input<float>::Normal(c.num_rows * c.n, 1, c.misalign, 3.0);
  for (int64_t i = 0; i < c.num_rows * c.n; ++i) x.data()[i] += 2.0f;
  const auto weight = Input<float>::Normal(c.n, 2, c.misalign);
  const auto bias = Input<float>::Normal(c.n, 3, c.misalign);
  const float epsilon = 1e-3f;
  ForEachDevice([&](Stream& stream) {
    Output<T> out(c.num_rows * c.n, c.misalign), copy(c.num_rows * c.n, c.misalign);
    LayerNorm({.x = x.data(),
               .weight = weight.data(),
               .bias = bias.data(),
               .out = out.data(),
               .out_dtype = DTypeOf<T>(),
               .copy = copy.data(),
               .num_rows = c.num_rows,
               .n = c.n,
               .epsilon = epsilon},
              stream);
    Synchronize(stream);
    EXPECT_TRUE(out.GuardsIntact() && copy.GuardsIntact());
    for (int64_t row = 0; row < c.num_rows; ++row) {
      const int64_t begin = row * c.n;
      double sum = 0.0, squares = 0.0;
      for (int64_t i = 0; i < c.n; ++i) sum += x.At(begin + i);
      const double mean = sum / static_cast<double>(c.n);
      for (int64_t i = 0; i < c.n; ++i) squares += std::pow(x.At(begin + i) - mean, 2);
      const double deviation = std::sqrt(squares / static_cast<double>(c.n) + double{epsilon});
      for (int64_t i = 0; i < c.n; ++i) {
        Reference expected;
        expected.Add((x.At(begin + i) - mean) / deviation * weight.At(i));
        expected.Add(bias.At(i));
        // What rounds is x and the mean, and not their difference.
        expected.magnitude +=
            (std::fabs(x.At(begin + i)) + std::fabs(mean)) / deviation * std::fabs(weight.At(i));
        ASSERT_TRUE(IsClose(out.At(begin + i), expected, ToleranceOf(DTypeOf<T>())))
            << row << ", " << i;
        const T rounded = FromFloat<T>(x[begin + i]);
        ASSERT_TRUE(testing::BitEqual(&copy[begin + i], &rounded, 1)) << row << ", " << i;
      }
    }
  });
}

TEST(LayerNormTest, MatchesReference) {
  for (const Case& c : kCases) {
    ExpectMatchesReference<float>(c);
    ExpectMatchesReference<Bfloat16>(c);
    ExpectMatchesReference<Float16>(c);
  }
}

TEST(LayerNormTest, InPlaceEqualsOutOfPlace) {
  for (const int64_t n : {37, 5000, 9001}) {
    const auto x = Input<float>::Normal(3 * n, 3, 1);
    const auto weight = Input<float>::Normal(n, 4), bias = Input<float>::Normal(n, 5);
    ForEachDevice([&](Stream& stream) {
      Output<float> apart(3 * n, 1);
      Output<float> in_place(x, 1);
      LayerNormArgs args{.x = x.data(),
                         .weight = weight.data(),
                         .bias = bias.data(),
                         .out = apart.data(),
                         .num_rows = 3,
                         .n = n};
      LayerNorm(args, stream);
      args.x = in_place.data();
      args.out = in_place.data();
      LayerNorm(args, stream);
      Synchronize(stream);
      EXPECT_TRUE(testing::BitEqual(apart.data(), in_place.data(), apart.size()));
      EXPECT_NE(apart[0], x[0]);
    });
  }
}

TEST(LayerNormTest, EqualValuesBecomeTheBiasAndNanSpreadsOverItsRowOnly) {
  Shared<float> x{std::vector<float>(3 * 20, 5.0f)};
  x[25] = std::numeric_limits<float>::quiet_NaN();
  const Shared<float> weight{std::vector<float>(20, 2.0f)};
  const Shared<float> bias{std::vector<float>(20, 3.0f)};
  ForEachDevice([&](Stream& stream) {
    Output<float> out(60);
    LayerNorm({.x = x.data(),
               .weight = weight.data(),
               .bias = bias.data(),
               .out = out.data(),
               .num_rows = 3,
               .n = 20},
              stream);
    Synchronize(stream);
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(out[i], 3.0f);
      EXPECT_TRUE(std::isnan(out[20 + i]));
      EXPECT_EQ(out[40 + i], 3.0f);
    }
  });
}

// The bits of a row must not depend on the number of rows.
TEST(LayerNormTest, RowsDoNotDependOnTheBatch) {
  for (const int64_t n : {96, 1000, 4096}) {
    const auto x = Input<float>::Normal(7 * n, 3);
    const auto weight = Input<float>::Normal(n, 4), bias = Input<float>::Normal(n, 5);
    ForEachDevice([&](Stream& stream) {
      Output<float> together(7 * n), alone(7 * n);
      LayerNormArgs args{.x = x.data(),
                         .weight = weight.data(),
                         .bias = bias.data(),
                         .out = together.data(),
                         .num_rows = 7,
                         .n = n};
      LayerNorm(args, stream);
      args.num_rows = 1;
      for (int64_t row = 0; row < 7; ++row) {
        args.x = x.data() + row * n;
        args.out = alone.data() + row * n;
        LayerNorm(args, stream);
      }
      Synchronize(stream);
      EXPECT_TRUE(testing::BitEqual(together.data(), alone.data(), 7 * n));
    });
  }
}

TEST(LayerNormDeathTest, RefusesBadShapes) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  std::vector<float> x(16), weight(8), bias(8);
  LayerNormArgs args{.x = x.data(),
                     .weight = weight.data(),
                     .bias = bias.data(),
                     .out = x.data(),
                     .num_rows = 2,
                     .n = 8};
  LayerNorm(args, stream);
  args.out_dtype = DType::kBF16;
  EXPECT_DEATH(LayerNorm(args, stream), "in place");
  args.out_dtype = DType::kF32;
  args.copy = x.data();
  EXPECT_DEATH(LayerNorm(args, stream), "third array");
  args.copy = nullptr;
  args.bias = nullptr;
  EXPECT_DEATH(LayerNorm(args, stream), "bias");
  args.bias = bias.data();
  args.n = 0;
  EXPECT_DEATH(LayerNorm(args, stream), "n");
}

}  // namespace layer_norm_test
}  // namespace graft
