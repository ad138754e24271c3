#include "kernels/gated_activation_backward/gated_activation_backward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace gated_activation_backward_test {

using testing::Input;
using testing::Output;
using testing::Shared;

constexpr int64_t kRows = 41;

// What the gate is made of it, and the derivative of that, by HF's formulas.
struct Activated {
  double value;
  double slope;
};

Activated Activate(Activation activation, double x) {
  if (activation == Activation::kSilu) {
    const double sigmoid = 1.0 / (1.0 + std::exp(-x));
    return {x * sigmoid, sigmoid * (1.0 + x * (1.0 - sigmoid))};
  }
  const double c = std::sqrt(2.0 / M_PI);
  const double tanh = std::tanh(c * (x + 0.044715 * x * x * x));
  return {0.5 * x * (1.0 + tanh),
          0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * c * (1.0 + 3.0 * 0.044715 * x * x)};
}

template <typename T, typename D>
void ExpectMatchesReference(Stream& stream, Activation activation, int64_t n) {
  const auto gate_up = Input<T>::Normal(kRows * 2 * n, 1, 1, 3.0);
  const auto d_out = Input<D>::Normal(kRows * n, 2);
  const double tolerance = testing::ToleranceOf(DTypeOf<T>());
  Output<T> d_gate_up(kRows * 2 * n, 1), activated(kRows * n);
  GatedActivationBackward({.activation = activation,
                           .dtype = DTypeOf<T>(),
                           .gate_up = gate_up.data(),
                           .d_out = d_out.data(),
                           .d_dtype = DTypeOf<D>(),
                           .d_gate_up = d_gate_up.data(),
                           .num_rows = kRows,
                           .n = n,
                           .activated = activated.data()},
                          stream);
  Synchronize(stream);
  EXPECT_TRUE(d_gate_up.GuardsIntact() && activated.GuardsIntact());
  const auto expect_near = [&](double actual, double expected) {
    EXPECT_NEAR(actual, expected, tolerance * std::fabs(expected) + 1e-5) << n;
  };
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < n; ++i) {
      const double gate = gate_up.At(row * 2 * n + i), up = gate_up.At(row * 2 * n + n + i);
      const double d = d_out.At(row * n + i);
      const Activated expected = Activate(activation, gate);
      expect_near(d_gate_up.At(row * 2 * n + i), d * up * expected.slope);
      expect_near(d_gate_up.At(row * 2 * n + n + i), d * expected.value);
      expect_near(activated.At(row * n + i), expected.value * up);
    }
  }
}

TEST(GatedActivationBackwardTest, MatchesReference) {
  for (const int64_t n : {1, 7, 16, 95, 777}) {
    for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
      testing::ForEachDevice(
          [&](Stream& stream) { ExpectMatchesReference<float, float>(stream, activation, n); });
      testing::ForFirstGpu([&](Stream& stream) {
        ExpectMatchesReference<Bfloat16, float>(stream, activation, n);
        ExpectMatchesReference<Bfloat16, Bfloat16>(stream, activation, n);
      });
    }
  }
}

// The forward itself in double, and its derivatives by differences.
TEST(GatedActivationBackwardTest, IsTheDerivativeOfTheForward) {
  constexpr int64_t kN = 61;
  const auto gate_up = Input<float>::Normal(2 * kN, 1, 0, 3.0);
  const auto d_out = Input<float>::Normal(kN, 2);
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    testing::ForEachDevice([&](Stream& stream) {
      Output<float> d_gate_up(2 * kN);
      GatedActivationBackward({.activation = activation,
                               .gate_up = gate_up.data(),
                               .d_out = d_out.data(),
                               .d_gate_up = d_gate_up.data(),
                               .num_rows = 1,
                               .n = kN},
                              stream);
      Synchronize(stream);
      for (int64_t i = 0; i < kN; ++i) {
        double gate = gate_up.At(i), up = gate_up.At(kN + i);
        const auto out = [&] { return d_out.At(i) * Activate(activation, gate).value * up; };
        const double d_gate = testing::NumericDerivative(&gate, out);
        const double d_up = testing::NumericDerivative(&up, out);
        ASSERT_NEAR(d_gate_up.At(i), d_gate, 1e-5 * (1.0 + std::fabs(d_gate)));
        ASSERT_NEAR(d_gate_up.At(kN + i), d_up, 1e-5 * (1.0 + std::fabs(d_up)));
      }
    });
  }
}

// Far from 0 the gate goes through as it is, or not at all.
TEST(GatedActivationBackwardTest, ExtremesStayFinite) {
  const std::vector<float> gates = {0.0f, 30.0f, 1e4f, 1e25f, -30.0f, -1e4f, -1e25f, std::nanf("")};
  const auto n = static_cast<int64_t>(gates.size());
  std::vector<float> both = gates;
  both.resize(2 * gates.size(), 2.0f);
  const Shared<float> gate_up(both);
  const Shared<float> d_out(std::vector<float>(gates.size(), 1.0f));
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    testing::ForEachDevice([&](Stream& stream) {
      Output<float> d(2 * n);
      GatedActivationBackward({.activation = activation,
                               .gate_up = gate_up.data(),
                               .d_out = d_out.data(),
                               .d_gate_up = d.data(),
                               .num_rows = 1,
                               .n = n},
                              stream);
      Synchronize(stream);
      EXPECT_NEAR(d[0], 1.0f, 1e-6f);
      for (const int64_t i : {1, 2, 3}) EXPECT_NEAR(d[i], 2.0f, 1e-5f) << i;
      for (const int64_t i : {4, 5, 6}) EXPECT_NEAR(d[i], 0.0f, 1e-5f) << i;
      EXPECT_TRUE(std::isnan(d[7]));
      for (const int64_t i : {1, 2, 3}) EXPECT_FLOAT_EQ(d[n + i], gates[static_cast<size_t>(i)]);
      for (const int64_t i : {4, 5}) EXPECT_NEAR(d[n + i], 0.0f, 1e-5f) << i;
    });
  }
}

}  // namespace gated_activation_backward_test
}  // namespace graft
