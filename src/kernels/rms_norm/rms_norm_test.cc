#include "kernels/rms_norm/rms_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace rms_norm_test {

using testing::ForEachDevice;
using testing::Input;
using testing::IsClose;
using testing::Output;
using testing::Reference;
using testing::Shared;
using testing::ToleranceOf;

struct Case {
  int64_t num_tokens;
  int32_t num_heads;
  int64_t n;
  int64_t gap;  // elements between tokens
  int64_t misalign;
};

const Case kCases[] = {
    {0, 1, 8, 0, 0},     {1, 1, 1, 0, 0},    {1, 1, 7, 0, 1},     {3, 1, 16, 5, 0},
    {2, 1, 17, 3, 2},    {5, 1, 63, 0, 3},   {2, 1, 65, 1, 0},    {1, 1, 2048, 0, 1},
    {9, 4, 128, 7, 5},   {3, 2, 33, 0, 1},   {2, 8, 64, 0, 0},    {1, 1, 4100, 0, 0},
    {41, 1, 1001, 2, 1}, {1, 1, 9001, 0, 0}, {2, 1, 16384, 0, 0},
};

template <typename T>
void ExpectMatchesReference(const Case& c) {
  SCOPED_TRACE(std::to_string(c.num_tokens) + " x " + std::to_string(c.num_heads) + " x " +
               std::to_string(c.n));
  const int64_t row = c.num_heads * c.n;
  const int64_t stride = row + c.gap;
  const auto x = Input<float>::Normal(c.num_tokens * stride, 1, c.misalign, 3.0);
  const auto weight = Input<float>::Normal(c.n, 2, c.misalign);
  const float epsilon = 1e-3f;
  ForEachDevice([&](Stream& stream) {
    Output<T> out(c.num_tokens * stride, c.misalign);
    RmsNorm({.x = x.data(),
             .x_stride = stride,
             .weight = weight.data(),
             .out = out.data(),
             .out_stride = stride,
             .out_dtype = DTypeOf<T>(),
             .num_tokens = c.num_tokens,
             .num_heads = c.num_heads,
             .n = c.n,
             .epsilon = epsilon},
            stream);
    Synchronize(stream);
    EXPECT_TRUE(out.GuardsIntact());
    for (int64_t begin = 0; begin < c.num_tokens * stride; begin += stride) {
      double norm = 0.0;  // of this head
      for (int64_t i = 0; i < row; ++i) {
        if (i % c.n == 0) {
          double sum = 0.0;
          for (int64_t j = 0; j < c.n; ++j) sum += x.At(begin + i + j) * x.At(begin + i + j);
          norm = std::sqrt(sum / static_cast<double>(c.n) + epsilon);
        }
        Reference expected;
        expected.Add(x.At(begin + i) * weight.At(i % c.n) / norm);
        // Below fp16's normal range its step size stays the same.
        if (DTypeOf<T>() == DType::kF16) expected.magnitude += 0x1.0p-14;
        ASSERT_TRUE(IsClose(out.At(begin + i), expected, ToleranceOf(DTypeOf<T>())))
            << begin << " + " << i;
      }
      for (int64_t i = row; i < stride; ++i) ASSERT_TRUE(out.IsUntouched(begin + i));
    }
  });
}

TEST(RmsNormTest, MatchesReference) {
  for (const Case& c : kCases) {
    ExpectMatchesReference<float>(c);
    ExpectMatchesReference<Bfloat16>(c);
    ExpectMatchesReference<Float16>(c);
  }
}

TEST(RmsNormTest, InPlaceEqualsOutOfPlace) {
  constexpr int64_t kTokens = 5, kHeads = 3, kN = 37, kStride = kHeads * kN + 4;
  const auto x = Input<float>::Normal(kTokens * kStride, 3, 1);
  const auto weight = Input<float>::Normal(kN, 4);
  ForEachDevice([&](Stream& stream) {
    Output<float> apart(x.size(), 1);
    Output<float> in_place(x.size(), 1);
    std::copy_n(x.data(), x.size(), apart.data());
    std::copy_n(x.data(), x.size(), in_place.data());
    RmsNormArgs args{.x = x.data(),
                     .x_stride = kStride,
                     .weight = weight.data(),
                     .out = apart.data(),
                     .out_stride = kStride,
                     .num_tokens = kTokens,
                     .num_heads = kHeads,
                     .n = kN};
    RmsNorm(args, stream);
    args.x = in_place.data();
    args.out = in_place.data();
    RmsNorm(args, stream);
    Synchronize(stream);
    EXPECT_TRUE(testing::BitEqual(apart.data(), in_place.data(), apart.size()));
    EXPECT_NE(apart[0], x[0]);
  });
}

// The bits must be those of adding what the op writes without `accumulate`.
TEST(RmsNormTest, AccumulateAddsToTheOutput) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(std::to_string(c.num_tokens) + " x " + std::to_string(c.n));
    const int64_t stride = c.num_heads * c.n + c.gap;
    const auto x = Input<float>::Normal(c.num_tokens * stride, 1, c.misalign, 3.0);
    const auto weight = Input<float>::Normal(c.n, 2, c.misalign);
    const auto before = Input<float>::Normal(c.num_tokens * stride, 3, c.misalign);
    ForEachDevice([&](Stream& stream) {
      Output<float> apart(c.num_tokens * stride, c.misalign);
      Output<float> added(before, c.misalign);
      RmsNormArgs args{.x = x.data(),
                       .x_stride = stride,
                       .weight = weight.data(),
                       .out = apart.data(),
                       .out_stride = stride,
                       .num_tokens = c.num_tokens,
                       .num_heads = c.num_heads,
                       .n = c.n};
      RmsNorm(args, stream);
      args.out = added.data();
      args.accumulate = true;
      RmsNorm(args, stream);
      Synchronize(stream);
      EXPECT_TRUE(added.GuardsIntact());
      for (int64_t i = 0; i < added.size(); ++i) {
        const bool is_gap = i % stride >= c.num_heads * c.n;
        ASSERT_EQ(added[i], is_gap ? before[i] : before[i] + apart[i]) << i;
      }
    });
  }
}

// What a backward needs of x: copied beside norms in place, into other arrays and on top of sums,
// without a change of their bits.
template <typename C>
void ExpectCopies(const Case& c, Stream& stream) {
  SCOPED_TRACE(std::to_string(c.num_tokens) + " x " + std::to_string(c.n));
  const int64_t row = c.num_heads * c.n, stride = row + c.gap, copy_stride = row + 2 * c.gap;
  const auto x = Input<float>::Normal(c.num_tokens * stride, 1, c.misalign, 3.0);
  const auto weight = Input<float>::Normal(c.n, 2, c.misalign);
  const auto before = Input<float>::Normal(c.num_tokens * stride, 3, c.misalign);
  for (const bool accumulate : {false, true}) {
    for (const bool in_place : {false, true}) {
      if (accumulate && in_place) continue;
      const Input<float>& initial = in_place ? x : before;
      Output<float> plain(initial, c.misalign), out(initial, c.misalign);
      Output<C> copy(c.num_tokens * copy_stride, c.misalign);
      RmsNormArgs args{.x = in_place ? plain.data() : x.data(),
                       .x_stride = stride,
                       .weight = weight.data(),
                       .out = plain.data(),
                       .out_stride = stride,
                       .accumulate = accumulate,
                       .num_tokens = c.num_tokens,
                       .num_heads = c.num_heads,
                       .n = c.n};
      RmsNorm(args, stream);
      if (in_place) args.x = out.data();
      args.out = out.data();
      args.copy = copy.data();
      args.copy_dtype = DTypeOf<C>();
      args.copy_stride = copy_stride;
      RmsNorm(args, stream);
      Synchronize(stream);
      EXPECT_TRUE(out.GuardsIntact() && copy.GuardsIntact());
      EXPECT_TRUE(testing::BitEqual(plain.data(), out.data(), plain.size()));
      for (int64_t i = 0; i < copy.size(); ++i) {
        const int64_t token = i / copy_stride, column = i % copy_stride;
        if (column >= row) {
          ASSERT_TRUE(copy.IsUntouched(i)) << i;
          continue;
        }
        const C rounded = FromFloat<C>(x[token * stride + column]);
        ASSERT_TRUE(testing::BitEqual(&copy[i], &rounded, 1)) << i;
      }
    }
  }
}

TEST(RmsNormTest, CopiesWhatItNormalises) {
  for (const Case& c : kCases) {
    ForEachDevice([&](Stream& stream) { ExpectCopies<float>(c, stream); });
    testing::ForFirstGpu([&](Stream& stream) {
      ExpectCopies<Bfloat16>(c, stream);
      ExpectCopies<Float16>(c, stream);
    });
  }
}

// Ranks have a part each of a vector, of which the first of these has none.
TEST(RmsNormTest, PartsOfAVectorBecomeWhatTheWholeBecomes) {
  constexpr int64_t kTokens = 5;
  const float epsilon = 1e-3f;
  for (const std::vector<int64_t>& parts : std::vector<std::vector<int64_t>>{
           {0, 1}, {0, 7, 16}, {0, 128, 256, 512}, {0, 33, 2048, 5}, {0, 4100}}) {
    const int64_t n = std::accumulate(parts.begin(), parts.end(), int64_t{0}), stride = n + 3;
    SCOPED_TRACE(std::to_string(n) + " of " + std::to_string(parts.size()) + " parts");
    const auto x = Input<float>::Normal(kTokens * stride, 1, 0, 3.0);
    const auto weight = Input<float>::Normal(n, 2);
    const auto num_parts = static_cast<int64_t>(parts.size());
    ForEachDevice([&](Stream& stream) {
      Output<float> sums(kTokens * num_parts), normed(x, 0);
      Output<float> squares(kTokens * 2);
      int64_t begin = 0;
      for (int64_t i = 0; i < num_parts; ++i) {
        SumSquares({.x = x.data() + begin,
                    .x_stride = stride,
                    .sums = sums.data() + i,
                    .sums_stride = num_parts,
                    .num_tokens = kTokens,
                    .n = parts[static_cast<size_t>(i)]},
                   stream);
        begin += parts[static_cast<size_t>(i)];
      }
      Synchronize(stream);
      for (int64_t token = 0; token < kTokens; ++token) {
        EXPECT_EQ(sums[token * num_parts], 0.0f);
        squares[token * 2] = 0.0f;
        for (int64_t i = 0; i < num_parts; ++i) squares[token * 2] += sums[token * num_parts + i];
      }
      begin = 0;
      for (const int64_t part : parts) {
        if (part == 0) continue;
        RmsNorm({.x = normed.data() + begin,
                 .x_stride = stride,
                 .weight = weight.data() + begin,
                 .out = normed.data() + begin,
                 .out_stride = stride,
                 .num_tokens = kTokens,
                 .n = part,
                 .epsilon = epsilon,
                 .squares = squares.data(),
                 .squares_stride = 2,
                 .n_whole = n},
                stream);
        begin += part;
      }
      Synchronize(stream);
      EXPECT_TRUE(sums.GuardsIntact() && normed.GuardsIntact());
      for (int64_t i = 0; i < kTokens * stride; ++i) {
        const int64_t row = i / stride * stride, column = i % stride;
        if (column >= n) {
          ASSERT_EQ(normed[i], x[i]) << i;
          continue;
        }
        double sum = 0.0;
        for (int64_t j = 0; j < n; ++j) sum += x.At(row + j) * x.At(row + j);
        Reference expected;
        expected.Add(x.At(i) * weight.At(column) /
                     std::sqrt(sum / static_cast<double>(n) + epsilon));
        ASSERT_TRUE(IsClose(normed.At(i), expected, ToleranceOf(DType::kF32))) << i;
      }
    });
  }
}

TEST(RmsNormTest, ZerosStayZerosAndNanSpreadsOverItsVectorOnly) {
  Shared<float> x{std::vector<float>(3 * 20, 0.0f)};
  for (int i = 40; i < 60; ++i) x[i] = 1.0f;
  x[25] = std::numeric_limits<float>::quiet_NaN();
  const Shared<float> weight{std::vector<float>(20, 2.0f)};
  ForEachDevice([&](Stream& stream) {
    Output<float> out(60);
    RmsNorm({.x = x.data(),
             .x_stride = 20,
             .weight = weight.data(),
             .out = out.data(),
             .out_stride = 20,
             .num_tokens = 3,
             .n = 20,
             .epsilon = 1e-6f},
            stream);
    Synchronize(stream);
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(out[i], 0.0f);
      EXPECT_TRUE(std::isnan(out[20 + i]));
      EXPECT_NEAR(out[40 + i], 2.0f, 1e-5f);
    }
  });
}

// The bits of a row must not depend on the number of rows.
TEST(RmsNormTest, RowsDoNotDependOnTheBatch) {
  for (const int64_t n : {96, 1000, 4096}) {
    const auto x = Input<float>::Normal(7 * n, 3);
    const auto weight = Input<float>::Normal(n, 4);
    ForEachDevice([&](Stream& stream) {
      Output<float> together(7 * n), alone(7 * n);
      RmsNormArgs args{.x = x.data(),
                       .x_stride = n,
                       .weight = weight.data(),
                       .out = together.data(),
                       .out_stride = n,
                       .num_tokens = 7,
                       .n = n};
      RmsNorm(args, stream);
      args.num_tokens = 1;
      for (int64_t row = 0; row < 7; ++row) {
        args.x = x.data() + row * n;
        args.out = alone.data() + row * n;
        RmsNorm(args, stream);
      }
      Synchronize(stream);
      EXPECT_TRUE(testing::BitEqual(together.data(), alone.data(), 7 * n));
    });
  }
}

TEST(RmsNormDeathTest, RefusesBadShapes) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  std::vector<float> x(16), weight(8);
  RmsNormArgs args{.x = x.data(),
                   .x_stride = 8,
                   .weight = weight.data(),
                   .out = x.data(),
                   .out_stride = 8,
                   .num_tokens = 2,
                   .n = 8};
  RmsNorm(args, stream);
  args.x_stride = 7;
  EXPECT_DEATH(RmsNorm(args, stream), "x_stride");
  args.x_stride = 8;
  args.out_dtype = DType::kBF16;
  EXPECT_DEATH(RmsNorm(args, stream), "in place");
  args.accumulate = true;
  EXPECT_DEATH(RmsNorm(args, stream), "sums are fp32");
  args.out_dtype = DType::kF32;
  EXPECT_DEATH(RmsNorm(args, stream), "accumulate in place");
  args.out = nullptr;
  EXPECT_DEATH(RmsNorm(args, stream), "out");
  args.accumulate = false;
  args.out = args.copy = x.data();
  EXPECT_DEATH(RmsNorm(args, stream), "third array");
  std::vector<float> copy(16);
  args.copy = copy.data();
  RmsNorm(args, stream);
  args.copy_stride = 7;
  EXPECT_DEATH(RmsNorm(args, stream), "copy_stride");
  args.copy_stride = 8;
  args.copy_dtype = DType::kBF16;
  EXPECT_DEATH(RmsNorm(args, stream), "copies here are fp32");
  args.squares = copy.data();
  args.n_whole = 16;
  EXPECT_DEATH(RmsNorm(args, stream), "normed by itself");
  args.copy = nullptr;
  RmsNorm(args, stream);
  args.n_whole = 7;
  EXPECT_DEATH(RmsNorm(args, stream), "n_whole");
  EXPECT_DEATH(
      SumSquares({.x = x.data(), .x_stride = 7, .sums = copy.data(), .num_tokens = 1, .n = 8},
                 stream),
      "x_stride");
}

}  // namespace rms_norm_test
}  // namespace graft
