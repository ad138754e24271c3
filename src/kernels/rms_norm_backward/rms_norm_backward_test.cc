#include "kernels/rms_norm_backward/rms_norm_backward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace rms_norm_backward_test {

using testing::Input;
using testing::Output;
using testing::Shared;

constexpr int64_t kRows = 70;
constexpr double kEpsilon = 1e-5;

// What the op adds to a row of d_x, and the row's norm.
struct RowReference {
  template <typename T, typename D>
  RowReference(const Input<T>& x, const Input<float>& weight, const Input<D>& d_out, int64_t row,
               int64_t n) {
    double squares = 0.0, products = 0.0;
    for (int64_t i = 0; i < n; ++i) {
      squares += x.At(row * n + i) * x.At(row * n + i);
      products += d_out.At(row * n + i) * weight.At(i) * x.At(row * n + i);
    }
    r = 1.0 / std::sqrt(squares / static_cast<double>(n) + kEpsilon);
    for (int64_t i = 0; i < n; ++i) {
      normed.push_back(x.At(row * n + i) * r * weight.At(i));
      change.push_back(r * (d_out.At(row * n + i) * weight.At(i) -
                            x.At(row * n + i) * r * r * products / static_cast<double>(n)));
    }
  }
  double r;
  std::vector<double> normed, change;
};

TEST(RmsNormBackwardTest, MatchesReference) {
  for (const int64_t n : {1, 3, 16, 31, 256, 300, 4100}) {
    const auto x = Input<float>::Normal(kRows * n, 1);
    const auto weight = Input<float>::Normal(n, 2);
    const auto d_out = Input<float>::Normal(kRows * n, 3);
    const auto before = Input<float>::Normal(kRows * n, 4);
    testing::ForEachDevice([&](Stream& stream) {
      Output<float> d_x(before, 1);
      RmsNormBackward({.x = x.data(),
                       .weight = weight.data(),
                       .d_out = d_out.data(),
                       .d_x = d_x.data(),
                       .num_rows = kRows,
                       .n = n,
                       .epsilon = static_cast<float>(kEpsilon)},
                      stream);
      Synchronize(stream);
      EXPECT_TRUE(d_x.GuardsIntact());
      for (int64_t row = 0; row < kRows; ++row) {
        const RowReference reference(x, weight, d_out, row, n);
        for (int64_t i = 0; i < n; ++i) {
          // Where one element is all there is, what is left of the difference is small.
          ASSERT_NEAR(d_x[row * n + i],
                      before.At(row * n + i) + reference.change[static_cast<size_t>(i)],
                      1e-5 * (1.0 + reference.r))
              << n << " " << i;
        }
      }
    });
  }
}

// Rows elsewhere, in another order, rounded copies, and the norm again.
template <typename T, typename D>
void ExpectRounded(int64_t n) {
  const auto x = Input<T>::Normal(kRows * n, 1);
  const auto weight = Input<float>::Normal(n, 2);
  const auto d_out = Input<D>::Normal(kRows * n, 3);
  const auto before = Input<float>::Normal(2 * kRows * n, 4);
  std::vector<int32_t> list(kRows);
  std::iota(list.begin(), list.end(), 0);
  for (int32_t& row : list) row = 2 * (static_cast<int32_t>(kRows) - 1 - row) + 1;
  const Shared<int32_t> rows(list);
  const auto expect = [&](Stream& stream) {
    Output<float> d_x(before, 0);
    Output<T> copy(2 * kRows * n), normed(kRows * n), alone(kRows * n);
    RmsNormBackwardArgs args{.x = x.data(),
                             .x_dtype = DTypeOf<T>(),
                             .weight = weight.data(),
                             .d_out = d_out.data(),
                             .d_dtype = DTypeOf<D>(),
                             .d_x = d_x.data(),
                             .num_rows = kRows,
                             .n = n,
                             .epsilon = static_cast<float>(kEpsilon),
                             .rows = rows.data(),
                             .d_x_copy = copy.data(),
                             .normed = normed.data()};
    RmsNormBackward(args, stream);
    args.d_out = nullptr;
    args.normed = alone.data();
    RmsNormBackward(args, stream);
    Synchronize(stream);
    EXPECT_TRUE(d_x.GuardsIntact() && copy.GuardsIntact() && normed.GuardsIntact());
    EXPECT_TRUE(testing::BitEqual(normed.data(), alone.data(), kRows * n));
    for (int64_t row = 0; row < kRows; ++row) {
      const RowReference reference(x, weight, d_out, row, n);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t to = rows[static_cast<size_t>(row)] * n + i;
        ASSERT_NEAR(d_x[to], before.At(to) + reference.change[static_cast<size_t>(i)],
                    1e-5 * (1.0 + reference.r));
        const T rounded = FromFloat<T>(d_x[to]);
        ASSERT_TRUE(testing::BitEqual(&copy[to], &rounded, 1));
        const double expected = reference.normed[static_cast<size_t>(i)];
        ASSERT_NEAR(normed.At(row * n + i), expected,
                    testing::ToleranceOf(DTypeOf<T>()) * std::fabs(expected) + 1e-6);
        ASSERT_TRUE(copy.IsUntouched(to - n));
      }
    }
  };
  testing::ForFirstGpu(expect);
  if constexpr (std::is_same_v<T, float>) testing::ForEachCpu(expect);
}

TEST(RmsNormBackwardTest, CopiesAndNormsAgain) {
  for (const int64_t n : {1, 7, 64, 1024, 4100}) {
    ExpectRounded<float, float>(n);
    ExpectRounded<Bfloat16, float>(n);
    ExpectRounded<Bfloat16, Bfloat16>(n);
  }
}

// Heads of queries or keys among other columns, and what blocks return: not added to anything.
struct HeadsCase {
  int64_t num_rows;
  int32_t num_heads;
  int64_t n;
  int64_t gap;  // columns of others in a row
  int64_t misalign;
};

const HeadsCase kHeadsCases[] = {
    {0, 1, 8, 0, 0},    {1, 1, 1, 0, 1},      {5, 3, 7, 2, 1},     {3, 4, 64, 0, 0},
    {9, 8, 128, 16, 0}, {2, 5, 128, 4, 0},    {3, 6, 96, 1, 2},    {3, 2, 256, 8, 0},
    {4, 1, 256, 64, 0}, {2, 3, 258, 1, 3},    {5, 1, 260, 4, 0},   {3, 2, 4100, 12, 0},
    {2, 1, 9001, 0, 1}, {300, 1, 2048, 0, 0}, {41, 9, 80, 800, 0},
};

// The gradients of one vector, in double.
std::vector<double> VectorGradient(const std::vector<double>& x, const std::vector<double>& weight,
                                   const std::vector<double>& d_out) {
  const auto n = static_cast<double>(x.size());
  double squares = 0.0, products = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    squares += x[i] * x[i];
    products += d_out[i] * weight[i] * x[i];
  }
  const double r = 1.0 / std::sqrt(squares / n + kEpsilon);
  std::vector<double> gradient;
  for (size_t i = 0; i < x.size(); ++i) {
    gradient.push_back(r * (d_out[i] * weight[i] - x[i] * r * r * products / n));
  }
  return gradient;
}

template <typename T>
std::vector<double> Doubles(const Input<T>& from, int64_t begin, int64_t n) {
  std::vector<double> values;
  for (int64_t i = begin; i < begin + n; ++i) values.push_back(from.At(i));
  return values;
}

// Over x and d_out with gaps of several widths; `expect` gets an element's number in a row of d_x,
// and its gradient by itself.
template <typename T, typename Expect>
void ForEachGradient(const HeadsCase& c, const Input<T>& x, const Input<float>& weight,
                     const Input<T>& d_out, const Expect& expect) {
  const int64_t row = c.num_heads * c.n;
  const std::vector<double> weights = Doubles(weight, 0, c.n);
  for (int64_t i = 0; i < c.num_rows; ++i) {
    for (int64_t head = 0; head < c.num_heads; ++head) {
      const std::vector<double> gradient =
          VectorGradient(Doubles(x, i * (row + c.gap) + head * c.n, c.n), weights,
                         Doubles(d_out, i * (row + 2 * c.gap) + head * c.n, c.n));
      for (int64_t j = 0; j < c.n; ++j) {
        expect(i, head * c.n + j, gradient[static_cast<size_t>(j)]);
      }
    }
  }
}

template <typename T>
struct HeadsOperands {
  explicit HeadsOperands(const HeadsCase& c)
      : row(c.num_heads * c.n),
        x(Input<T>::Normal(c.num_rows * (row + c.gap), 1, c.misalign)),
        weight(Input<float>::Normal(c.n, 2, c.misalign)),
        d_out(Input<T>::Normal(c.num_rows * (row + 2 * c.gap), 3, c.misalign)) {}
  RmsNormBackwardArgs Args(const HeadsCase& c) const {
    return {.x = x.data(),
            .x_stride = row + c.gap,
            .x_dtype = DTypeOf<T>(),
            .weight = weight.data(),
            .d_out = d_out.data(),
            .d_out_stride = row + 2 * c.gap,
            .d_dtype = DTypeOf<T>(),
            .num_rows = c.num_rows,
            .num_heads = c.num_heads,
            .n = c.n,
            .epsilon = static_cast<float>(kEpsilon)};
  }
  int64_t row;
  Input<T> x;
  Input<float> weight;
  Input<T> d_out;
};

// Where a vector is short, its gradient may be as large as 1 / sqrt(epsilon).
template <typename T>
double Bound(double expected, double factor = 1.0) {
  const double of_type = DTypeOf<T>() == DType::kF32 ? 0.0 : testing::ToleranceOf(DTypeOf<T>());
  return of_type * std::fabs(expected) + 2e-5 * factor * (1.0 + std::fabs(expected));
}

// In place of d_out, as gradients of queries and keys are, and elsewhere, as those of a block.
template <typename T>
void ExpectWritten(const HeadsCase& c, Stream& stream) {
  SCOPED_TRACE(std::to_string(c.num_rows) + " x " + std::to_string(c.num_heads) + " x " +
               std::to_string(c.n));
  const HeadsOperands<T> operands(c);
  const int64_t row = operands.row;
  for (const bool in_place : {true, false}) {
    const int64_t stride = row + (in_place ? 2 : 3) * c.gap;
    Output<T> d_x = in_place ? Output<T>(operands.d_out, c.misalign)
                             : Output<T>(c.num_rows * stride, c.misalign);
    RmsNormBackwardArgs args = operands.Args(c);
    if (in_place) args.d_out = d_x.data();
    args.d_x_copy = d_x.data();
    args.d_x_stride = stride;
    args.copy_scale = in_place ? 1.0f : 0.25f;
    RmsNormBackward(args, stream);
    Synchronize(stream);
    EXPECT_TRUE(d_x.GuardsIntact());
    ForEachGradient(c, operands.x, operands.weight, operands.d_out,
                    [&](int64_t i, int64_t j, double gradient) {
                      const double expected = gradient * static_cast<double>(args.copy_scale);
                      ASSERT_NEAR(d_x.At(i * stride + j), expected, Bound<T>(expected)) << i;
                    });
    for (int64_t i = 0; i < d_x.size(); ++i) {
      if (i % stride < row) continue;
      if (in_place) {
        ASSERT_TRUE(testing::BitEqual(&d_x[i], &operands.d_out[i], 1)) << i;
      } else {
        ASSERT_TRUE(d_x.IsUntouched(i)) << i;
      }
    }
  }
}

TEST(RmsNormBackwardTest, WritesGradientsOfHeads) {
  for (const HeadsCase& c : kHeadsCases) {
    testing::ForEachDevice([&](Stream& stream) { ExpectWritten<float>(c, stream); });
    testing::ForFirstGpu([&](Stream& stream) { ExpectWritten<Bfloat16>(c, stream); });
  }
}

// Added to rows elsewhere, with a copy by a scale: Granite's branches get a part of the stream's.
template <typename T>
void ExpectAddedAndScaled(const HeadsCase& c, Stream& stream) {
  SCOPED_TRACE(std::to_string(c.num_rows) + " x " + std::to_string(c.num_heads) + " x " +
               std::to_string(c.n));
  const HeadsOperands<T> operands(c);
  const int64_t row = operands.row, stride = row + 3 * c.gap;
  const auto before = Input<float>::Normal(2 * c.num_rows * stride, 4, c.misalign);
  std::vector<int32_t> list;
  for (int64_t i = 0; i < c.num_rows; ++i) {
    list.push_back(static_cast<int32_t>(2 * (c.num_rows - i) - 1));
  }
  const Shared<int32_t> rows(list);
  Output<float> d_x(before, c.misalign);
  Output<T> copy(before.size(), c.misalign);
  RmsNormBackwardArgs args = operands.Args(c);
  args.d_x = d_x.data();
  args.d_x_stride = stride;
  args.rows = rows.data();
  args.d_x_copy = copy.data();
  args.copy_scale = 0.22f;
  RmsNormBackward(args, stream);
  Synchronize(stream);
  EXPECT_TRUE(d_x.GuardsIntact() && copy.GuardsIntact());
  ForEachGradient(c, operands.x, operands.weight, operands.d_out,
                  [&](int64_t i, int64_t j, double gradient) {
                    const int64_t at = rows[static_cast<size_t>(i)] * stride + j;
                    const double expected = before.At(at) + gradient;
                    ASSERT_NEAR(d_x.At(at), expected, Bound<float>(gradient)) << i;
                    const T scaled = FromFloat<T>(d_x[at] * 0.22f);
                    ASSERT_TRUE(testing::BitEqual(&copy[at], &scaled, 1)) << i;
                  });
  for (int64_t i = 0; i < d_x.size(); ++i) {
    if (i / stride % 2 == 1 && i % stride < row) continue;
    ASSERT_EQ(d_x[i], before[i]) << i;
    ASSERT_TRUE(copy.IsUntouched(i)) << i;
  }
}

TEST(RmsNormBackwardTest, AddsToRowsAndScalesTheirCopies) {
  for (const HeadsCase& c : kHeadsCases) {
    testing::ForEachDevice([&](Stream& stream) { ExpectAddedAndScaled<float>(c, stream); });
    testing::ForFirstGpu([&](Stream& stream) { ExpectAddedAndScaled<Bfloat16>(c, stream); });
  }
}

// The forward itself in double, and its derivatives by differences.
TEST(RmsNormBackwardTest, IsTheDerivativeOfTheForward) {
  const HeadsCase cases[] = {{3, 2, 9, 3, 0}, {2, 1, 300, 0, 0}, {2, 3, 64, 0, 0}};
  for (const HeadsCase& c : cases) {
    const HeadsOperands<float> operands(c);
    testing::ForEachDevice([&](Stream& stream) {
      Output<float> d_x(c.num_rows * operands.row);
      RmsNormBackwardArgs args = operands.Args(c);
      args.d_x_copy = d_x.data();
      RmsNormBackward(args, stream);
      Synchronize(stream);
      for (int64_t vector = 0; vector < c.num_rows * c.num_heads; ++vector) {
        const int64_t row = vector / c.num_heads, column = vector % c.num_heads * c.n;
        std::vector<double> x = Doubles(operands.x, row * args.x_stride + column, c.n);
        const auto out = [&] {
          double squares = 0.0, sum = 0.0;
          for (const double value : x) squares += value * value;
          const double norm = std::sqrt(squares / static_cast<double>(c.n) + kEpsilon);
          for (int64_t i = 0; i < c.n; ++i) {
            sum += operands.d_out.At(row * args.d_out_stride + column + i) * operands.weight.At(i) *
                   x[static_cast<size_t>(i)] / norm;
          }
          return sum;
        };
        for (int64_t i = 0; i < c.n; ++i) {
          const double expected = testing::NumericDerivative(&x[static_cast<size_t>(i)], out);
          ASSERT_NEAR(d_x.At(row * operands.row + column + i), expected, Bound<float>(expected));
        }
      }
    });
  }
}

// The bits of a row must not depend on the number of rows.
TEST(RmsNormBackwardTest, RowsDoNotDependOnTheBatch) {
  for (const HeadsCase& c : kHeadsCases) {
    const HeadsOperands<float> operands(c);
    testing::ForEachDevice([&](Stream& stream) {
      Output<float> together(c.num_rows * operands.row), alone(c.num_rows * operands.row);
      RmsNormBackwardArgs args = operands.Args(c);
      args.d_x_copy = together.data();
      RmsNormBackward(args, stream);
      args.num_rows = 1;
      for (int64_t row = 0; row < c.num_rows; ++row) {
        args.x = operands.x.data() + row * args.x_stride;
        args.d_out = operands.d_out.data() + row * args.d_out_stride;
        args.d_x_copy = alone.data() + row * operands.row;
        RmsNormBackward(args, stream);
      }
      Synchronize(stream);
      EXPECT_TRUE(testing::BitEqual(together.data(), alone.data(), together.size()));
    });
  }
}

TEST(RmsNormBackwardDeathTest, RefusesBadPlaces) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  std::vector<float> x(16), weight(8), d(16);
  RmsNormBackwardArgs args{.x = x.data(),
                           .weight = weight.data(),
                           .d_out = d.data(),
                           .num_rows = 2,
                           .n = 8,
                           .d_x_copy = d.data()};
  RmsNormBackward(args, stream);
  args.d_x_stride = 9;
  EXPECT_DEATH(RmsNormBackward(args, stream), "in place");
  args.d_x_stride = 7;
  EXPECT_DEATH(RmsNormBackward(args, stream), "over each other");
  args.d_x_stride = 0;
  args.d_x = x.data();
  EXPECT_DEATH(RmsNormBackward(args, stream), "in place");
  args.d_x = nullptr;
  args.d_x_copy = nullptr;
  EXPECT_DEATH(RmsNormBackward(args, stream), "no place");
  args.d_x = d.data();
  EXPECT_DEATH(RmsNormBackward(args, stream), "written to d_x_copy");
}

}  // namespace rms_norm_backward_test
}  // namespace graft
