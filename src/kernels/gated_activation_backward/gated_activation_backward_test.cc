#include "kernels/gated_activation_backward/gated_activation_backward.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/common/test_util.h"

namespace graft {
namespace gated_activation_backward_test {

using testing::Input;
using testing::Output;

TEST(GatedActivationBackwardTest, MatchesReference) {
  ThreadPool threads(2);
  Stream stream{.device = {}, .cpu_threads = &threads};
  for (const int64_t n : {1, 7, 16, 95, 777}) {
    constexpr int64_t kRows = 41;
    const auto gate_up = Input<float>::Normal(kRows * 2 * n, 1, 1, 3.0);
    const auto d_out = Input<float>::Normal(kRows * n, 2);
    Output<float> d_gate_up(kRows * 2 * n, 1);
    GatedActivationBackward({.gate_up = gate_up.data(),
                             .d_out = d_out.data(),
                             .d_gate_up = d_gate_up.data(),
                             .num_rows = kRows,
                             .n = n},
                            stream);
    EXPECT_TRUE(d_gate_up.GuardsIntact());
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t i = 0; i < n; ++i) {
        const double gate = gate_up.At(row * 2 * n + i), up = gate_up.At(row * 2 * n + n + i);
        const double d = d_out.At(row * n + i), sigmoid = 1.0 / (1.0 + std::exp(-gate));
        const double slope = sigmoid * (1.0 + gate * (1.0 - sigmoid));
        ASSERT_NEAR(d_gate_up[row * 2 * n + i], d * up * slope, 1e-5);
        ASSERT_NEAR(d_gate_up[row * 2 * n + n + i], d * gate * sigmoid, 1e-5);
      }
    }
  }
}

}  // namespace gated_activation_backward_test
}  // namespace graft
