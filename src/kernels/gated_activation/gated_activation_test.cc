#include "kernels/gated_activation/gated_activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace gated_activation_test {

using testing::ForEachDevice;
using testing::Input;
using testing::IsClose;
using testing::Output;
using testing::Reference;
using testing::Shared;
using testing::ToleranceOf;

struct Case {
  int64_t num_tokens;
  int64_t n;
  int64_t misalign;
};

const Case kCases[] = {{0, 8, 0},  {1, 1, 0},  {2, 7, 1},     {3, 16, 0},   {1, 17, 2},
                       {4, 95, 3}, {2, 64, 1}, {1, 11008, 1}, {43, 777, 1}, {600, 40, 0}};

double Activated(Activation activation, double x) {
  if (activation == Activation::kSilu) return x / (1.0 + std::exp(-x));
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

template <typename T>
void ExpectMatchesReference(const Case& c, Activation activation) {
  SCOPED_TRACE(std::to_string(c.num_tokens) + " x " + std::to_string(c.n));
  const auto gate_up = Input<float>::Normal(c.num_tokens * 2 * c.n, 1, c.misalign, 4.0);
  ForEachDevice([&](Stream& stream) {
    Output<T> out(c.num_tokens * c.n, c.misalign), copy(c.num_tokens * 2 * c.n, c.misalign);
    GatedActivation({.activation = activation,
                     .gate_up = gate_up.data(),
                     .out = out.data(),
                     .out_dtype = DTypeOf<T>(),
                     .num_tokens = c.num_tokens,
                     .n = c.n,
                     .copy = copy.data()},
                    stream);
    Synchronize(stream);
    EXPECT_TRUE(out.GuardsIntact() && copy.GuardsIntact());
    for (int64_t i = 0; i < copy.size(); ++i) {
      const T rounded = FromFloat<T>(gate_up[i]);
      ASSERT_TRUE(testing::BitEqual(&copy[i], &rounded, 1)) << i;
    }
    for (int64_t i = 0; i < out.size(); ++i) {
      const int64_t from = i / c.n * 2 * c.n + i % c.n;
      const double gate = gate_up.At(from);
      Reference expected;
      expected.Add(Activated(activation, gate) * gate_up.At(from + c.n));
      // Where 1 + tanh(u) cancels, the rest is only as exact as its exponent. With the inputs here
      // the exponent reaches 12 before the product becomes smaller than the error of the terms.
      expected.magnitude += 1e-6 * std::fabs(gate * gate_up.At(from + c.n));
      // Below fp16's normal range its step size stays the same.
      if (DTypeOf<T>() == DType::kF16) expected.magnitude += 0x1.0p-14;
      ASSERT_TRUE(IsClose(out.At(i), expected, ToleranceOf(DTypeOf<T>()))) << i;
    }
  });
}

TEST(GatedActivationTest, MatchesReference) {
  for (const Case& c : kCases) {
    for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
      ExpectMatchesReference<float>(c, activation);
      ExpectMatchesReference<Bfloat16>(c, activation);
      ExpectMatchesReference<Float16>(c, activation);
    }
  }
}

TEST(GatedActivationTest, ExtremesAreExactEnough) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> gates = {0.0f, 1e4f, 100.0f, -100.0f, -1e4f, infinity, std::nanf("")};
  const auto n = static_cast<int64_t>(gates.size());
  std::vector<float> gate_up = gates;
  gate_up.resize(2 * gates.size(), 2.0f);
  const Shared<float> operand{gate_up};
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh})
    ForEachDevice([&](Stream& stream) {
      Output<float> out(n);
      GatedActivation({.activation = activation,
                       .gate_up = operand.data(),
                       .out = out.data(),
                       .num_tokens = 1,
                       .n = n},
                      stream);
      Synchronize(stream);
      EXPECT_EQ(out[0], 0.0f);
      EXPECT_FLOAT_EQ(out[1], 2e4f);
      EXPECT_FLOAT_EQ(out[2], 200.0f);
      EXPECT_NEAR(out[3], 0.0f, 1e-30f);
      EXPECT_NEAR(out[4], 0.0f, 1e-30f);
      EXPECT_EQ(out[5], infinity);
      EXPECT_TRUE(std::isnan(out[6]));
    });
}

TEST(GatedActivationDeathTest, RefusesBadShapes) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  std::vector<float> x(16);
  GatedActivationArgs args{.gate_up = x.data(), .out = x.data(), .num_tokens = 1, .n = 0};
  EXPECT_DEATH(GatedActivation(args, stream), "n");
  args = {.gate_up = nullptr, .out = x.data(), .num_tokens = 1, .n = 8};
  EXPECT_DEATH(GatedActivation(args, stream), "gate_up");
}

}  // namespace gated_activation_test
}  // namespace graft
