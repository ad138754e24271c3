#include "kernels/activate_backward/activate_backward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/activate/activate.h"
#include "kernels/common/op_test_util.h"

namespace graft {
namespace activate_backward_test {

using testing::ForEachDevice;
using testing::ForFirstGpu;
using testing::Input;
using testing::Output;
using testing::Shared;

constexpr Activation kAll[] = {Activation::kSilu, Activation::kGeluTanh, Activation::kGelu,
                               Activation::kRelu};

// By HF's formulas.
double Activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::kRelu:
      return std::max(x, 0.0);
  }
  return 0.0;
}

double Slope(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu: {
      const double sigmoid = 1.0 / (1.0 + std::exp(-x));
      return sigmoid * (1.0 + x * (1.0 - sigmoid));
    }
    case Activation::kGeluTanh: {
      const double c = std::sqrt(2.0 / M_PI);
      const double tanh = std::tanh(c * (x + 0.044715 * x * x * x));
      return 0.5 * (1.0 + tanh) +
             0.5 * x * (1.0 - tanh * tanh) * c * (1.0 + 3.0 * 0.044715 * x * x);
    }
    case Activation::kGelu:
      return 0.5 * std::erfc(-x / std::sqrt(2.0)) +
             x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * M_PI);
    case Activation::kRelu:
      return x > 0.0 ? 1.0 : 0.0;
  }
  return 0.0;
}

template <typename T, typename D>
void ExpectMatchesReference(Stream& stream, Activation activation, int64_t n, int64_t misalign) {
  SCOPED_TRACE(std::to_string(n) + " as " + std::to_string(static_cast<int>(activation)));
  const auto x = Input<T>::Normal(n, 1, misalign, 3.0);
  const auto d_out = Input<D>::Normal(n, 2, misalign);
  const double tolerance = testing::ToleranceOf(DTypeOf<T>());
  Output<T> d_x(n, misalign), activated(n, misalign);
  ActivateBackward({.activation = activation,
                    .dtype = DTypeOf<T>(),
                    .x = x.data(),
                    .d_out = d_out.data(),
                    .d_dtype = DTypeOf<D>(),
                    .d_x = d_x.data(),
                    .n = n,
                    .activated = activated.data()},
                   stream);
  Synchronize(stream);
  EXPECT_TRUE(d_x.GuardsIntact() && activated.GuardsIntact());
  for (int64_t i = 0; i < n; ++i) {
    const double slope = d_out.At(i) * Slope(activation, x.At(i));
    ASSERT_NEAR(d_x.At(i), slope, tolerance * std::fabs(slope) + 1e-5) << i << ": " << x.At(i);
    const double forward = Activated(activation, x.At(i));
    ASSERT_NEAR(activated.At(i), forward, tolerance * std::fabs(forward) + 1e-5) << i;
  }
}

TEST(ActivateBackwardTest, MatchesReference) {
  for (const Activation activation : kAll) {
    for (const int64_t n : {0, 1, 7, 8, 17, 4095, 4096, 4099, 20000}) {
      for (const int64_t misalign : {0, 1}) {
        ForEachDevice([&](Stream& stream) {
          ExpectMatchesReference<float, float>(stream, activation, n, misalign);
        });
        ForFirstGpu([&](Stream& stream) {
          ExpectMatchesReference<Bfloat16, float>(stream, activation, n, misalign);
          ExpectMatchesReference<Bfloat16, Bfloat16>(stream, activation, n, misalign);
          ExpectMatchesReference<Float16, float>(stream, activation, n, misalign);
        });
      }
    }
  }
}

// On the CPU what is activated again has the forward's bits.
TEST(ActivateBackwardTest, ActivatesAgainToTheSameBits) {
  const auto x = Input<float>::Normal(5001, 1, 1, 3.0);
  const auto d_out = Input<float>::Normal(5001, 2);
  for (const Activation activation : kAll) {
    testing::ForEachCpu([&](Stream& stream) {
      Output<float> forward(5001), again(5001), d_x(5001);
      Activate({.activation = activation, .x = x.data(), .out = forward.data(), .n = 5001}, stream);
      ActivateBackward({.activation = activation,
                        .x = x.data(),
                        .d_out = d_out.data(),
                        .d_x = d_x.data(),
                        .n = 5001,
                        .activated = again.data()},
                       stream);
      EXPECT_TRUE(testing::BitEqual(forward.data(), again.data(), 5001));
    });
  }
}

// The forward itself in double, and its derivatives by differences.
TEST(ActivateBackwardTest, IsTheDerivativeOfTheForward) {
  constexpr int64_t kN = 333;
  const auto x = Input<float>::Normal(kN, 1, 0, 3.0);
  const auto d_out = Input<float>::Normal(kN, 2);
  for (const Activation activation : kAll) {
    ForEachDevice([&](Stream& stream) {
      Output<float> d_x(kN);
      ActivateBackward({.activation = activation,
                        .x = x.data(),
                        .d_out = d_out.data(),
                        .d_x = d_x.data(),
                        .n = kN},
                       stream);
      Synchronize(stream);
      for (int64_t i = 0; i < kN; ++i) {
        double at = x.At(i);
        const double expected = testing::NumericDerivative(
            &at, [&] { return d_out.At(i) * Activated(activation, at); });
        ASSERT_NEAR(d_x[i], expected, 1e-5 * (1.0 + std::fabs(expected))) << at;
      }
    });
  }
}

// Far from 0 x goes through as it is, or not at all.
TEST(ActivateBackwardTest, ExtremesStayFinite) {
  const std::vector<float> values = {0.0f,  30.0f,  1e4f,   1e25f,   -30.0f,
                                     -1e4f, -1e25f, 1e-44f, -1e-44f, std::nanf("")};
  const auto n = static_cast<int64_t>(values.size());
  const Shared<float> x(values);
  const Shared<float> d_out(std::vector<float>(values.size(), 2.0f));
  for (const Activation activation : kAll) {
    const bool is_relu = activation == Activation::kRelu;
    ForEachDevice([&](Stream& stream) {
      Output<float> d(n);
      ActivateBackward(
          {.activation = activation, .x = x.data(), .d_out = d_out.data(), .d_x = d.data(), .n = n},
          stream);
      Synchronize(stream);
      EXPECT_NEAR(d[0], is_relu ? 0.0f : 1.0f, 1e-6f);
      for (const int64_t i : {1, 2, 3}) EXPECT_NEAR(d[i], 2.0f, 1e-5f) << i;
      for (const int64_t i : {4, 5, 6}) EXPECT_NEAR(d[i], 0.0f, 1e-5f) << i;
      EXPECT_NEAR(d[7], is_relu ? 2.0f : 1.0f, 1e-6f);
      EXPECT_NEAR(d[8], is_relu ? 0.0f : 1.0f, 1e-6f);
      EXPECT_TRUE(std::isnan(d[9]));
    });
  }
}

// Tasks and vectors are cut at other places here. The bits of an element must not change.
TEST(ActivateBackwardTest, ElementsDoNotDependOnTheirNeighbours) {
  const auto x = Input<float>::Normal(9000, 2, 0, 3.0);
  const auto d_out = Input<float>::Normal(9000, 3);
  for (const Activation activation : kAll) {
    ForEachDevice([&](Stream& stream) {
      Output<float> together(9000), apart(9000);
      ActivateBackwardArgs args = {.activation = activation,
                                   .x = x.data(),
                                   .d_out = d_out.data(),
                                   .d_x = together.data(),
                                   .n = 9000};
      ActivateBackward(args, stream);
      for (int64_t i = 0; i < 9000; i += 37) {
        args.x = x.data() + i;
        args.d_out = d_out.data() + i;
        args.d_x = apart.data() + i;
        args.n = std::min<int64_t>(37, 9000 - i);
        ActivateBackward(args, stream);
      }
      Synchronize(stream);
      EXPECT_TRUE(testing::BitEqual(together.data(), apart.data(), 9000));
    });
  }
}

TEST(ActivateBackwardDeathTest, RefusesBadPlaces) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  std::vector<float> x(4), d_out(4), d_x(4);
  ActivateBackwardArgs args = {.x = x.data(), .d_out = d_out.data(), .d_x = d_x.data(), .n = 4};
  ActivateBackward(args, stream);
  args.d_x = d_out.data();
  EXPECT_DEATH(ActivateBackward(args, stream), "in place");
  args.d_x = nullptr;
  EXPECT_DEATH(ActivateBackward(args, stream), "d_x");
  args.n = -1;
  EXPECT_DEATH(ActivateBackward(args, stream), "n");
}

}  // namespace activate_backward_test
}  // namespace graft
