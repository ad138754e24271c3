#include "kernels/rope/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace rope_test {

using testing::ForEachDevice;
using testing::Input;
using testing::IsClose;
using testing::Output;
using testing::Reference;
using testing::Shared;

struct Case {
  int64_t num_tokens;
  int32_t num_heads;
  int32_t head_dim;
  int32_t rotary_dim;
  int64_t gap;
  int64_t misalign;
};

const Case kCases[] = {
    {0, 1, 8, 8, 0, 0},     {1, 1, 2, 2, 0, 0},    {3, 2, 6, 6, 1, 1},    {2, 3, 32, 32, 4, 0},
    {5, 1, 34, 34, 0, 3},   {4, 5, 64, 64, 8, 1},  {2, 2, 80, 80, 0, 0},  {3, 36, 128, 128, 9, 1},
    {2, 1, 256, 256, 0, 2}, {33, 9, 66, 66, 5, 1}, {3, 4, 128, 96, 0, 0}, {5, 2, 32, 24, 3, 1},
    {2, 3, 96, 96, 0, 0},   {4, 2, 7, 4, 0, 0},
};

constexpr int32_t kPositionsMax = 50;

TEST(RopeTest, MatchesReference) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(std::to_string(c.num_tokens) + " x " + std::to_string(c.num_heads) + " x " +
                 std::to_string(c.head_dim));
    const int64_t row = int64_t{c.num_heads} * c.head_dim;
    const int64_t stride = row + c.gap;
    const int32_t half = c.rotary_dim / 2;
    const auto x = Input<float>::Normal(c.num_tokens * stride, 1, c.misalign);
    const auto cos = Input<float>::Normal(int64_t{kPositionsMax} * half, 2, c.misalign);
    const auto sin = Input<float>::Normal(int64_t{kPositionsMax} * half, 3, c.misalign);
    Shared<int32_t> positions{std::vector<int32_t>(c.num_tokens)};
    // The first token has the last position, so that its angles lie at the end of the tables.
    for (int64_t i = 0; i < c.num_tokens; ++i) {
      positions[i] = kPositionsMax - 1 - static_cast<int32_t>(i * 7 % kPositionsMax);
    }
    ForEachDevice([&](Stream& stream) {
      Output<float> out(x, c.misalign);
      Rope({.x = out.data(),
            .x_stride = stride,
            .num_tokens = c.num_tokens,
            .num_heads = c.num_heads,
            .head_dim = c.head_dim,
            .rotary_dim = c.rotary_dim,
            .positions = positions.data(),
            .cos = cos.data(),
            .sin = sin.data()},
           stream);
      Synchronize(stream);
      EXPECT_TRUE(out.GuardsIntact());
      for (int64_t i = 0; i < c.num_tokens * stride; ++i) {
        const int64_t in_row = i % stride;
        if (in_row >= row) {
          ASSERT_EQ(out[i], x[i]) << "gap " << i;
          continue;
        }
        const int64_t d = in_row % c.head_dim;
        if (d >= c.rotary_dim) {
          ASSERT_EQ(out[i], x[i]) << "dimension " << d;
          continue;
        }
        const int64_t angle = int64_t{positions[i / stride]} * half + d % half;
        Reference expected;
        expected.Add(x.At(i) * cos.At(angle));
        expected.Add(d < half ? -x.At(i + half) * sin.At(angle) : x.At(i - half) * sin.At(angle));
        ASSERT_TRUE(IsClose(out.At(i), expected, testing::kF32Tolerance)) << i;
      }
    });
  }
}

// The bits of the turn by tables of negated sines, also where dimensions stay.
TEST(RopeTest, TurnsBackAsNegatedSinesDo) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(std::to_string(c.num_tokens) + " x " + std::to_string(c.num_heads) + " x " +
                 std::to_string(c.head_dim));
    const int64_t stride = int64_t{c.num_heads} * c.head_dim + c.gap;
    const int64_t num_angles = int64_t{kPositionsMax} * c.rotary_dim / 2;
    const auto x = Input<float>::Normal(c.num_tokens * stride, 1, c.misalign);
    const auto cos = Input<float>::Normal(num_angles, 2, c.misalign);
    const auto sin = Input<float>::Normal(num_angles, 3, c.misalign);
    Input<float> negated(num_angles, c.misalign);
    for (int64_t i = 0; i < num_angles; ++i) negated[i] = -sin[i];
    Shared<int32_t> positions{std::vector<int32_t>(c.num_tokens)};
    for (int64_t i = 0; i < c.num_tokens; ++i) positions[i] = static_cast<int32_t>(i * 11 % 50);
    ForEachDevice([&](Stream& stream) {
      Output<float> back(x, c.misalign), by_tables(x, c.misalign);
      RopeArgs args{.x = back.data(),
                    .x_stride = stride,
                    .num_tokens = c.num_tokens,
                    .num_heads = c.num_heads,
                    .head_dim = c.head_dim,
                    .rotary_dim = c.rotary_dim,
                    .positions = positions.data(),
                    .cos = cos.data(),
                    .sin = sin.data(),
                    .back = true};
      Rope(args, stream);
      args.x = by_tables.data();
      args.sin = negated.data();
      args.back = false;
      Rope(args, stream);
      Synchronize(stream);
      EXPECT_TRUE(back.GuardsIntact());
      EXPECT_TRUE(testing::BitEqual(back.data(), by_tables.data(), x.size()));
    });
  }
}

// Neighbours are turned as halves are that hold the same pairs, to the bit, forth and back.
TEST(RopeTest, InterleavedTurnsNeighbours) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(std::to_string(c.num_tokens) + " x " + std::to_string(c.num_heads) + " x " +
                 std::to_string(c.head_dim));
    const int64_t stride = int64_t{c.num_heads} * c.head_dim + c.gap;
    const int32_t half = c.rotary_dim / 2;
    // Where the halves have what neighbours have at `i` of a row.
    const auto in_halves = [&](int64_t i) {
      const int64_t d = i % c.head_dim;
      if (i >= int64_t{c.num_heads} * c.head_dim || d >= c.rotary_dim) return i;
      return i - d + d / 2 + (d % 2 == 1 ? half : 0);
    };
    const auto x = Input<float>::Normal(c.num_tokens * stride, 1, c.misalign);
    Input<float> apart(c.num_tokens * stride, c.misalign);
    for (int64_t i = 0; i < c.num_tokens * stride; ++i) {
      apart[i - i % stride + in_halves(i % stride)] = x[i];
    }
    const auto cos = Input<float>::Normal(int64_t{kPositionsMax} * half, 2, c.misalign);
    const auto sin = Input<float>::Normal(int64_t{kPositionsMax} * half, 3, c.misalign);
    Shared<int32_t> positions{std::vector<int32_t>(c.num_tokens)};
    for (int64_t i = 0; i < c.num_tokens; ++i) positions[i] = static_cast<int32_t>(i * 11 % 50);
    ForEachDevice([&](Stream& stream) {
      for (const bool back : {false, true}) {
        Output<float> neighbours(x, c.misalign), halves(apart, c.misalign);
        RopeArgs args{.x = neighbours.data(),
                      .x_stride = stride,
                      .num_tokens = c.num_tokens,
                      .num_heads = c.num_heads,
                      .head_dim = c.head_dim,
                      .rotary_dim = c.rotary_dim,
                      .positions = positions.data(),
                      .cos = cos.data(),
                      .sin = sin.data(),
                      .back = back,
                      .interleaved = true};
        Rope(args, stream);
        args.x = halves.data();
        args.interleaved = false;
        Rope(args, stream);
        Synchronize(stream);
        EXPECT_TRUE(neighbours.GuardsIntact());
        for (int64_t i = 0; i < c.num_tokens * stride; ++i) {
          const float expected = halves[i - i % stride + in_halves(i % stride)];
          ASSERT_TRUE(testing::BitEqual(&neighbours[i], &expected, 1)) << i;
        }
      }
    });
  }
}

// The forward of one head in double, of which 6 of 10 dimensions turn, by tables that are no
// rotation (longrope scales them). A turn back is the gradient.
TEST(RopeTest, TurningBackIsTheDerivative) {
  constexpr int32_t kDim = 10, kRotary = 6, kHalf = kRotary / 2;
  const auto x = Input<float>::Normal(kDim, 1);
  const auto d_out = Input<float>::Normal(kDim, 2);
  const auto cos = Input<float>::Normal(kHalf, 3);
  const auto sin = Input<float>::Normal(kHalf, 4);
  const Shared<int32_t> position{0};
  std::vector<double> at;
  for (int64_t i = 0; i < kDim; ++i) at.push_back(x.At(i));
  const auto out = [&] {
    double sum = 0.0;
    for (int64_t i = 0; i < kDim; ++i) {
      double turned = at[static_cast<size_t>(i)];
      if (i < kRotary) {
        const double sign = i < kHalf ? -1.0 : 1.0;
        turned = turned * cos.At(i % kHalf) +
                 sign * at[static_cast<size_t>((i + kHalf) % kRotary)] * sin.At(i % kHalf);
      }
      sum += d_out.At(i) * turned;
    }
    return sum;
  };
  ForEachDevice([&](Stream& stream) {
    Output<float> d_x(d_out, 0);
    Rope({.x = d_x.data(),
          .x_stride = kDim,
          .num_tokens = 1,
          .num_heads = 1,
          .head_dim = kDim,
          .rotary_dim = kRotary,
          .positions = position.data(),
          .cos = cos.data(),
          .sin = sin.data(),
          .back = true},
         stream);
    Synchronize(stream);
    for (int64_t i = 0; i < kDim; ++i) {
      EXPECT_NEAR(d_x.At(i), testing::NumericDerivative(&at[static_cast<size_t>(i)], out), 1e-5);
    }
  });
}

TEST(RopeTest, RotationKeepsLength) {
  constexpr int32_t kDim = 48;
  const auto x = Input<float>::Normal(kDim, 5);
  Shared<float> cos{std::vector<float>(kDim / 2)}, sin{std::vector<float>(kDim / 2)};
  for (int32_t i = 0; i < kDim / 2; ++i) {
    cos[i] = std::cos(0.1f * static_cast<float>(i));
    sin[i] = std::sin(0.1f * static_cast<float>(i));
  }
  const Shared<int32_t> position{0};
  ForEachDevice([&](Stream& stream) {
    Output<float> out(x, 0);
    Rope({.x = out.data(),
          .x_stride = kDim,
          .num_tokens = 1,
          .num_heads = 1,
          .head_dim = kDim,
          .rotary_dim = kDim,
          .positions = position.data(),
          .cos = cos.data(),
          .sin = sin.data()},
         stream);
    Synchronize(stream);
    double before = 0.0, after = 0.0;
    for (int32_t i = 0; i < kDim; ++i) {
      before += x.At(i) * x.At(i);
      after += out.At(i) * out.At(i);
    }
    EXPECT_NEAR(after, before, 1e-5 * before);
  });
}

TEST(RopeDeathTest, RefusesBadShapes) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  std::vector<float> x(16), table(16);
  int32_t position = 0;
  RopeArgs args{.x = x.data(),
                .x_stride = 16,
                .num_tokens = 1,
                .num_heads = 2,
                .head_dim = 8,
                .rotary_dim = 8,
                .positions = &position,
                .cos = table.data(),
                .sin = table.data()};
  Rope(args, stream);
  args.x_stride = 15;
  EXPECT_DEATH(Rope(args, stream), "x_stride");
  args.x_stride = 16;
  args.rotary_dim = 7;
  EXPECT_DEATH(Rope(args, stream), "halves");
  args.rotary_dim = 10;
  EXPECT_DEATH(Rope(args, stream), "rotary_dim 10 of 8");
  args.rotary_dim = 8;
  position = -1;
  EXPECT_DEATH(Rope(args, stream), "positions");
}

}  // namespace rope_test
}  // namespace graft
