#include "kernels/layer_norm_backward/layer_norm_backward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/common/op_test_util.h"
#include "kernels/layer_norm/layer_norm.h"

namespace graft {
namespace layer_norm_backward_test {

using testing::ForEachDevice;
using testing::ForFirstGpu;
using testing::Input;
using testing::Output;
using testing::Shared;
using testing::ToleranceOf;

constexpr double kEpsilon = 1e-4;

struct Case {
  int64_t num_rows;
  int64_t n;
  int64_t misalign;
};

const Case kCases[] = {{0, 8, 0},     {1, 1, 0},    {1, 7, 1},     {3, 16, 0},  {2, 17, 2},
                       {5, 63, 3},    {2, 65, 0},   {1, 2048, 1},  {9, 128, 5}, {1, 4100, 0},
                       {41, 1001, 1}, {1, 9001, 0}, {2, 16384, 0}, {3, 1600, 0}};

// One row in double.
struct RowReference {
  template <typename T, typename D>
  RowReference(const Input<T>& x, const Input<float>& weight, const Input<float>& bias,
               const Input<D>& d_out, int64_t row, int64_t n) {
    const auto count = static_cast<double>(n);
    double sum = 0.0, squares = 0.0, level = 0.0, along = 0.0;
    for (int64_t i = 0; i < n; ++i) sum += x.At(row * n + i);
    for (int64_t i = 0; i < n; ++i) squares += std::pow(x.At(row * n + i) - sum / count, 2);
    r = 1.0 / std::sqrt(squares / count + kEpsilon);
    std::vector<double> y, d;
    for (int64_t i = 0; i < n; ++i) {
      y.push_back((x.At(row * n + i) - sum / count) * r);
      d.push_back(d_out.At(row * n + i) * weight.At(i));
      level += d.back();
      along += d.back() * y.back();
      normed.push_back(y.back() * weight.At(i) + bias.At(i));
    }
    for (size_t i = 0; i < y.size(); ++i) {
      change.push_back(r * (d[i] - level / count - y[i] * along / count));
    }
  }
  double r;
  std::vector<double> normed, change;
};

// The values lie around 2, so that a mean that is left in shows.
template <typename T, typename D>
struct Operands {
  explicit Operands(const Case& c)
      : x(Input<T>::Normal(c.num_rows * c.n, 1, c.misalign, 3.0)),
        weight(Input<float>::Normal(c.n, 2, c.misalign)),
        bias(Input<float>::Normal(c.n, 3, c.misalign)),
        d_out(Input<D>::Normal(c.num_rows * c.n, 4, c.misalign)) {
    for (int64_t i = 0; i < x.size(); ++i) x[i] = FromFloat<T>(ToFloat(x[i]) + 2.0f);
  }
  LayerNormBackwardArgs Args(const Case& c) const {
    return {.x = x.data(),
            .x_dtype = DTypeOf<T>(),
            .weight = weight.data(),
            .bias = bias.data(),
            .d_out = d_out.data(),
            .d_dtype = DTypeOf<D>(),
            .num_rows = c.num_rows,
            .n = c.n,
            .epsilon = static_cast<float>(kEpsilon)};
  }
  Input<T> x;
  Input<float> weight, bias;
  Input<D> d_out;
};

// To rows elsewhere, in another order, with a copy by a scale, and the norm again.
template <typename T, typename D>
void ExpectMatchesReference(const Case& c, Stream& stream) {
  SCOPED_TRACE(std::to_string(c.num_rows) + " x " + std::to_string(c.n));
  const Operands<T, D> operands(c);
  const auto before = Input<float>::Normal(2 * c.num_rows * c.n, 5, c.misalign);
  std::vector<int32_t> list;
  for (int64_t i = 0; i < c.num_rows; ++i) {
    list.push_back(static_cast<int32_t>(2 * (c.num_rows - i) - 1));
  }
  const Shared<int32_t> rows(list);
  Output<float> d_x(before, c.misalign);
  Output<T> copy(before.size(), c.misalign), normed(c.num_rows * c.n, c.misalign);
  Output<T> alone(c.num_rows * c.n, c.misalign);
  LayerNormBackwardArgs args = operands.Args(c);
  args.d_x = d_x.data();
  args.rows = rows.data();
  args.d_x_copy = copy.data();
  args.copy_scale = 0.22f;
  args.normed = normed.data();
  LayerNormBackward(args, stream);
  args.d_out = nullptr;
  args.normed = alone.data();
  LayerNormBackward(args, stream);
  Synchronize(stream);
  EXPECT_TRUE(d_x.GuardsIntact() && copy.GuardsIntact() && normed.GuardsIntact());
  EXPECT_TRUE(alone.GuardsIntact());
  EXPECT_TRUE(testing::BitEqual(normed.data(), alone.data(), normed.size()));
  for (int64_t row = 0; row < c.num_rows; ++row) {
    const RowReference reference(operands.x, operands.weight, operands.bias, operands.d_out, row,
                                 c.n);
    for (int64_t i = 0; i < c.n; ++i) {
      const int64_t at = rows[static_cast<size_t>(row)] * c.n + i;
      // What rounds is x and the mean, not their difference; one element has no distance at all.
      ASSERT_NEAR(d_x[at], before.At(at) + reference.change[static_cast<size_t>(i)],
                  2e-5 * (1.0 + reference.r))
          << row << ", " << i;
      const T scaled = FromFloat<T>(d_x[at] * 0.22f);
      ASSERT_TRUE(testing::BitEqual(&copy[at], &scaled, 1)) << row << ", " << i;
      ASSERT_EQ(d_x[at - c.n], before[at - c.n]);
      ASSERT_TRUE(copy.IsUntouched(at - c.n));
      const double expected = reference.normed[static_cast<size_t>(i)];
      ASSERT_NEAR(normed.At(row * c.n + i), expected,
                  ToleranceOf(DTypeOf<T>()) * std::fabs(expected) + 1e-5 * (1.0 + reference.r));
    }
  }
}

TEST(LayerNormBackwardTest, MatchesReference) {
  for (const Case& c : kCases) {
    ForEachDevice([&](Stream& stream) { ExpectMatchesReference<float, float>(c, stream); });
    ForFirstGpu([&](Stream& stream) {
      ExpectMatchesReference<Bfloat16, float>(c, stream);
      ExpectMatchesReference<Bfloat16, Bfloat16>(c, stream);
      ExpectMatchesReference<Float16, float>(c, stream);
    });
  }
}

// On the CPU the norm again has the forward's bits.
TEST(LayerNormBackwardTest, NormsAgainToTheSameBits) {
  for (const Case& c : kCases) {
    const Operands<float, float> operands(c);
    testing::ForEachCpu([&](Stream& stream) {
      Output<float> forward(c.num_rows * c.n), again(c.num_rows * c.n);
      LayerNorm({.x = operands.x.data(),
                 .weight = operands.weight.data(),
                 .bias = operands.bias.data(),
                 .out = forward.data(),
                 .num_rows = c.num_rows,
                 .n = c.n,
                 .epsilon = static_cast<float>(kEpsilon)},
                stream);
      LayerNormBackwardArgs args = operands.Args(c);
      args.d_out = nullptr;
      args.normed = again.data();
      LayerNormBackward(args, stream);
      EXPECT_TRUE(testing::BitEqual(forward.data(), again.data(), forward.size()));
    });
  }
}

// The forward itself in double, and its derivatives by differences.
TEST(LayerNormBackwardTest, IsTheDerivativeOfTheForward) {
  const Case cases[] = {{3, 9, 0}, {2, 300, 1}, {2, 64, 0}};
  for (const Case& c : cases) {
    const Operands<float, float> operands(c);
    ForEachDevice([&](Stream& stream) {
      const Input<float> zeros(c.num_rows * c.n);
      Output<float> d_x(zeros, 0);
      LayerNormBackwardArgs args = operands.Args(c);
      args.d_x = d_x.data();
      LayerNormBackward(args, stream);
      Synchronize(stream);
      for (int64_t row = 0; row < c.num_rows; ++row) {
        std::vector<double> x;
        for (int64_t i = 0; i < c.n; ++i) x.push_back(operands.x.At(row * c.n + i));
        const auto out = [&] {
          const auto count = static_cast<double>(c.n);
          double mean = 0.0, squares = 0.0, sum = 0.0;
          for (const double value : x) mean += value / count;
          for (const double value : x) squares += (value - mean) * (value - mean);
          const double deviation = std::sqrt(squares / count + kEpsilon);
          for (int64_t i = 0; i < c.n; ++i) {
            const double y = (x[static_cast<size_t>(i)] - mean) / deviation;
            sum += operands.d_out.At(row * c.n + i) *
                   (y * operands.weight.At(i) + operands.bias.At(i));
          }
          return sum;
        };
        for (int64_t i = 0; i < c.n; ++i) {
          const double expected = testing::NumericDerivative(&x[static_cast<size_t>(i)], out);
          ASSERT_NEAR(d_x[row * c.n + i], expected, 2e-5 * (1.0 + std::fabs(expected)));
        }
      }
    });
  }
}

TEST(LayerNormBackwardTest, NanSpreadsOverItsRowOnly) {
  Shared<float> x{std::vector<float>(3 * 20, 5.0f)};
  x[25] = std::numeric_limits<float>::quiet_NaN();
  const Shared<float> weight{std::vector<float>(20, 2.0f)};
  const Shared<float> d_out{std::vector<float>(3 * 20, 3.0f)};
  ForEachDevice([&](Stream& stream) {
    const Input<float> zeros(60);
    Output<float> d_x(zeros, 0);
    LayerNormBackward({.x = x.data(),
                       .weight = weight.data(),
                       .bias = weight.data(),
                       .d_out = d_out.data(),
                       .d_x = d_x.data(),
                       .num_rows = 3,
                       .n = 20},
                      stream);
    Synchronize(stream);
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(d_x[i], 0.0f) << "equal gradients of equal values move nothing";
      EXPECT_TRUE(std::isnan(d_x[20 + i]));
      EXPECT_EQ(d_x[40 + i], 0.0f);
    }
  });
}

// The bits of a row must not depend on the number of rows.
TEST(LayerNormBackwardTest, RowsDoNotDependOnTheBatch) {
  for (const int64_t n : {96, 1000, 4096}) {
    const Case c = {7, n, 0};
    const Operands<float, float> operands(c);
    const auto before = Input<float>::Normal(7 * n, 5);
    ForEachDevice([&](Stream& stream) {
      Output<float> together(before, 0), alone(before, 0);
      LayerNormBackwardArgs args = operands.Args(c);
      args.d_x = together.data();
      LayerNormBackward(args, stream);
      args.num_rows = 1;
      for (int64_t row = 0; row < 7; ++row) {
        args.x = operands.x.data() + row * n;
        args.d_out = operands.d_out.data() + row * n;
        args.d_x = alone.data() + row * n;
        LayerNormBackward(args, stream);
      }
      Synchronize(stream);
      EXPECT_TRUE(testing::BitEqual(together.data(), alone.data(), 7 * n));
    });
  }
}

TEST(LayerNormBackwardDeathTest, RefusesBadPlaces) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  std::vector<float> x(16), weight(8), d_out(16), d_x(16);
  LayerNormBackwardArgs args{.x = x.data(),
                             .weight = weight.data(),
                             .bias = weight.data(),
                             .d_out = d_out.data(),
                             .d_x = d_x.data(),
                             .num_rows = 2,
                             .n = 8};
  LayerNormBackward(args, stream);
  args.d_x = d_out.data();
  EXPECT_DEATH(LayerNormBackward(args, stream), "in place");
  args.d_x = nullptr;
  EXPECT_DEATH(LayerNormBackward(args, stream), "no place");
  args.d_out = nullptr;
  EXPECT_DEATH(LayerNormBackward(args, stream), "nothing to compute");
  args.x_dtype = DType::kBF16;
  EXPECT_DEATH(LayerNormBackward(args, stream), "fp32");
}

}  // namespace layer_norm_backward_test
}  // namespace graft
