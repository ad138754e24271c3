#include "kernels/silu_mul/silu_mul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/test_util.h"

namespace graft {
namespace {

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

template <typename T>
void ExpectMatchesReference(const Case& c) {
  SCOPED_TRACE(std::to_string(c.num_tokens) + " x " + std::to_string(c.n));
  const auto gate_up = Input<float>::Normal(c.num_tokens * 2 * c.n, 1, c.misalign, 4.0);
  ForEachDevice([&](Stream& stream) {
    Output<T> out(c.num_tokens * c.n, c.misalign);
    SiluMul({.gate_up = gate_up.data(),
             .out = out.data(),
             .out_dtype = DTypeOf<T>(),
             .num_tokens = c.num_tokens,
             .n = c.n},
            stream);
    Synchronize(stream);
    EXPECT_TRUE(out.GuardsIntact());
    for (int64_t i = 0; i < out.size(); ++i) {
      const int64_t from = i / c.n * 2 * c.n + i % c.n;
      const double gate = gate_up.At(from);
      Reference expected;
      expected.Add(gate / (1.0 + std::exp(-gate)) * gate_up.At(from + c.n));
      // Below fp16's normal range its steps no longer shrink.
      if (DTypeOf<T>() == DType::kF16) expected.magnitude += 0x1.0p-14;
      ASSERT_TRUE(IsClose(out.At(i), expected, ToleranceOf(DTypeOf<T>()))) << i;
    }
  });
}

TEST(SiluMulTest, MatchesReference) {
  for (const Case& c : kCases) {
    ExpectMatchesReference<float>(c);
    ExpectMatchesReference<Bfloat16>(c);
    ExpectMatchesReference<Float16>(c);
  }
}

TEST(SiluMulTest, ExtremesAreExactEnough) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> gates = {0.0f, 1e4f, 100.0f, -100.0f, -1e4f, infinity, std::nanf("")};
  const auto n = static_cast<int64_t>(gates.size());
  std::vector<float> gate_up = gates;
  gate_up.resize(2 * gates.size(), 2.0f);
  const Shared<float> operand{gate_up};
  ForEachDevice([&](Stream& stream) {
    Output<float> out(n);
    SiluMul({.gate_up = operand.data(), .out = out.data(), .num_tokens = 1, .n = n}, stream);
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

TEST(SiluMulDeathTest, RefusesBadShapes) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  std::vector<float> x(16);
  SiluMulArgs args{.gate_up = x.data(), .out = x.data(), .num_tokens = 1, .n = 0};
  EXPECT_DEATH(SiluMul(args, stream), "n");
  args = {.gate_up = nullptr, .out = x.data(), .num_tokens = 1, .n = 8};
  EXPECT_DEATH(SiluMul(args, stream), "gate_up");
}

}  // namespace
}  // namespace graft
