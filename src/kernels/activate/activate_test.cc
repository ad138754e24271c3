#include "kernels/activate/activate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace activate_test {

using testing::ForEachDevice;
using testing::Input;
using testing::IsClose;
using testing::Output;
using testing::Reference;
using testing::Shared;
using testing::ToleranceOf;

constexpr Activation kAll[] = {Activation::kSilu, Activation::kGeluTanh, Activation::kGelu,
                               Activation::kRelu};

double InDouble(Activation activation, double x) {
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

template <typename T>
void ExpectMatchesReference(int64_t n, int64_t misalign, Activation activation) {
  SCOPED_TRACE(std::to_string(n) + " as " + std::to_string(static_cast<int>(activation)));
  const auto x = Input<float>::Normal(n, 1, misalign, 3.0);
  ForEachDevice([&](Stream& stream) {
    Output<T> out(n, misalign), copy(n, misalign);
    Activate({.activation = activation,
              .x = x.data(),
              .out = out.data(),
              .out_dtype = DTypeOf<T>(),
              .copy = copy.data(),
              .n = n},
             stream);
    Synchronize(stream);
    EXPECT_TRUE(out.GuardsIntact() && copy.GuardsIntact());
    for (int64_t i = 0; i < n; ++i) {
      const T rounded = FromFloat<T>(x[i]);
      ASSERT_TRUE(testing::BitEqual(&copy[i], &rounded, 1)) << i;
      Reference expected;
      expected.Add(InDouble(activation, x.At(i)));
      // What is left of x where the formula cancels is only as exact as x.
      expected.magnitude += std::fabs(x.At(i));
      ASSERT_TRUE(IsClose(out.At(i), expected, ToleranceOf(DTypeOf<T>()))) << i << ": " << x[i];
    }
  });
}

TEST(ActivateTest, MatchesReference) {
  for (const Activation activation : kAll) {
    for (const int64_t n : {0, 1, 7, 8, 17, 4095, 4096, 4099, 20000}) {
      for (const int64_t misalign : {0, 1}) {
        ExpectMatchesReference<float>(n, misalign, activation);
        ExpectMatchesReference<Bfloat16>(n, misalign, activation);
        ExpectMatchesReference<Float16>(n, misalign, activation);
      }
    }
  }
}

TEST(ActivateTest, ExtremesAreExactEnough) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {0.0f, 1e4f, 100.0f, -100.0f, -1e4f, infinity, std::nanf("")};
  const Shared<float> x{values};
  for (const Activation activation : kAll) {
    ForEachDevice([&](Stream& stream) {
      Output<float> out(7);
      Activate({.activation = activation, .x = x.data(), .out = out.data(), .n = 7}, stream);
      Synchronize(stream);
      EXPECT_EQ(out[0], 0.0f);
      EXPECT_FLOAT_EQ(out[1], 1e4f);
      EXPECT_FLOAT_EQ(out[2], 100.0f);
      EXPECT_NEAR(out[3], 0.0f, 1e-30f);
      EXPECT_NEAR(out[4], 0.0f, 1e-30f);
      EXPECT_EQ(out[5], infinity);
      EXPECT_TRUE(std::isnan(out[6]));
    });
  }
}

// Tasks and vectors are cut at other places here. The bits of an element must not change.
TEST(ActivateTest, ElementsDoNotDependOnTheirNeighbours) {
  const auto x = Input<float>::Normal(9000, 2, 0, 3.0);
  for (const Activation activation : kAll) {
    ForEachDevice([&](Stream& stream) {
      Output<float> together(9000), apart(9000);
      Activate({.activation = activation, .x = x.data(), .out = together.data(), .n = 9000},
               stream);
      for (int64_t i = 0; i < 9000; i += 37) {
        Activate({.activation = activation,
                  .x = x.data() + i,
                  .out = apart.data() + i,
                  .n = std::min<int64_t>(37, 9000 - i)},
                 stream);
      }
      Synchronize(stream);
      EXPECT_TRUE(testing::BitEqual(together.data(), apart.data(), 9000));
    });
  }
}

TEST(ActivateDeathTest, RefusesBadShapes) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  std::vector<float> x(4), out(4);
  Activate({.x = x.data(), .out = out.data(), .n = 4}, stream);
  EXPECT_DEATH(Activate({.x = x.data(), .out = out.data(), .n = -1}, stream), "n");
  EXPECT_DEATH(Activate({.out = out.data(), .n = 4}, stream), "x");
  EXPECT_DEATH(Activate({.x = x.data(), .out = x.data(), .n = 4}, stream), "in place");
}

}  // namespace activate_test
}  // namespace graft
