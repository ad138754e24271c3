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

// What a GPU has beside: rows elsewhere, in another order, rounded copies, and the norm again.
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
  testing::ForFirstGpu([&](Stream& stream) {
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
  });
}

TEST(RmsNormBackwardTest, RoundsOnAGpu) {
  for (const int64_t n : {1, 7, 64, 1024, 4100}) {
    ExpectRounded<float, float>(n);
    ExpectRounded<Bfloat16, float>(n);
    ExpectRounded<Bfloat16, Bfloat16>(n);
  }
}

}  // namespace rms_norm_backward_test
}  // namespace graft
