#include "kernels/rms_norm_backward/rms_norm_backward.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/common/test_util.h"

namespace graft {
namespace rms_norm_backward_test {

using testing::Input;
using testing::Output;

TEST(RmsNormBackwardTest, MatchesReference) {
  ThreadPool threads(2);
  Stream stream{.device = {}, .cpu_threads = &threads};
  for (const int64_t n : {1, 3, 16, 31, 256, 300}) {
    constexpr int64_t kRows = 70;
    const auto x = Input<float>::Normal(kRows * n, 1);
    const auto weight = Input<float>::Normal(n, 2);
    const auto d_out = Input<float>::Normal(kRows * n, 3);
    const auto before = Input<float>::Normal(kRows * n, 4);
    Output<float> d_x(before, 1);
    RmsNormBackward({.x = x.data(),
                     .weight = weight.data(),
                     .d_out = d_out.data(),
                     .d_x = d_x.data(),
                     .num_rows = kRows,
                     .n = n,
                     .epsilon = 1e-5f},
                    stream);
    EXPECT_TRUE(d_x.GuardsIntact());
    for (int64_t row = 0; row < kRows; ++row) {
      double squares = 0.0, products = 0.0;
      for (int64_t i = row * n; i < (row + 1) * n; ++i) {
        squares += x.At(i) * x.At(i);
        products += d_out.At(i) * weight.At(i - row * n) * x.At(i);
      }
      const double r = 1.0 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
      for (int64_t i = row * n; i < (row + 1) * n; ++i) {
        const double change = r * (d_out.At(i) * weight.At(i - row * n) -
                                   x.At(i) * r * r * products / static_cast<double>(n));
        // Where one element is all there is, what is left of the difference is small.
        ASSERT_NEAR(d_x[i], before.At(i) + change, 1e-5 * (1.0 + r)) << n << " " << i;
      }
    }
  }
}

}  // namespace rms_norm_backward_test
}  // namespace graft
