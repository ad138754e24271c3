#include "kernels/gated_activation_backward/gated_activation_backward.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace gated_activation_backward_test {

using testing::Input;
using testing::Output;

constexpr int64_t kRows = 41;

template <typename T, typename D>
void ExpectMatchesReference(Stream& stream, int64_t n) {
  const auto gate_up = Input<T>::Normal(kRows * 2 * n, 1, 1, 3.0);
  const auto d_out = Input<D>::Normal(kRows * n, 2);
  const bool activates = !stream.device.is_cpu();
  const double tolerance = testing::ToleranceOf(DTypeOf<T>());
  Output<T> d_gate_up(kRows * 2 * n, 1), activated(kRows * n);
  GatedActivationBackward({.dtype = DTypeOf<T>(),
                           .gate_up = gate_up.data(),
                           .d_out = d_out.data(),
                           .d_dtype = DTypeOf<D>(),
                           .d_gate_up = d_gate_up.data(),
                           .num_rows = kRows,
                           .n = n,
                           .activated = activates ? activated.data() : nullptr},
                          stream);
  Synchronize(stream);
  EXPECT_TRUE(d_gate_up.GuardsIntact() && activated.GuardsIntact());
  const auto expect_near = [&](double actual, double expected) {
    EXPECT_NEAR(actual, expected, tolerance * std::fabs(expected) + 1e-5) << n;
  };
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < n; ++i) {
      const double gate = gate_up.At(row * 2 * n + i), up = gate_up.At(row * 2 * n + n + i);
      const double d = d_out.At(row * n + i), sigmoid = 1.0 / (1.0 + std::exp(-gate));
      const double slope = sigmoid * (1.0 + gate * (1.0 - sigmoid));
      expect_near(d_gate_up.At(row * 2 * n + i), d * up * slope);
      expect_near(d_gate_up.At(row * 2 * n + n + i), d * gate * sigmoid);
      if (activates) expect_near(activated.At(row * n + i), gate * sigmoid * up);
    }
  }
}

TEST(GatedActivationBackwardTest, MatchesReference) {
  for (const int64_t n : {1, 7, 16, 95, 777}) {
    testing::ForEachDevice(
        [&](Stream& stream) { ExpectMatchesReference<float, float>(stream, n); });
    testing::ForFirstGpu([&](Stream& stream) {
      ExpectMatchesReference<Bfloat16, float>(stream, n);
      ExpectMatchesReference<Bfloat16, Bfloat16>(stream, n);
    });
  }
}

}  // namespace gated_activation_backward_test
}  // namespace graft
