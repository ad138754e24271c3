#include "kernels/soft_cap/soft_cap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace soft_cap_test {

using testing::ForEachDevice;
using testing::Input;
using testing::Output;

TEST(SoftCapTest, MatchesReference) {
  for (const int64_t n : {0, 1, 3, 4, 17, 1000, 4096, 4099, 20000}) {
    for (const int64_t misalign : {0, 1}) {
      for (const float cap : {0.5f, 30.0f}) {
        const auto x = Input<float>::Normal(n, 1, misalign, 20.0);
        ForEachDevice([&](Stream& stream) {
          Output<float> out(x, misalign);
          SoftCap({.x = out.data(), .n = n, .cap = cap}, stream);
          Synchronize(stream);
          EXPECT_TRUE(out.GuardsIntact());
          for (int64_t i = 0; i < n; ++i) {
            const double wide = double{cap};
            ASSERT_NEAR(out.At(i), wide * std::tanh(x.At(i) / wide), 1e-6 * wide) << i;
          }
        });
      }
    }
  }
}

TEST(SoftCapTest, ExtremesStayWithinTheCap) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Input<float> x = [&] {
    Input<float> values(6);
    const std::vector<float> all = {0.0f, 1e30f, -1e30f, infinity, -infinity, std::nanf("")};
    std::copy(all.begin(), all.end(), values.data());
    return values;
  }();
  ForEachDevice([&](Stream& stream) {
    Output<float> out(x, 0);
    SoftCap({.x = out.data(), .n = 6, .cap = 30.0f}, stream);
    Synchronize(stream);
    EXPECT_NEAR(out[0], 0.0f, 1e-5f);
    EXPECT_EQ(out[1], 30.0f);
    EXPECT_EQ(out[2], -30.0f);
    EXPECT_EQ(out[3], 30.0f);
    EXPECT_EQ(out[4], -30.0f);
    EXPECT_TRUE(std::isnan(out[5]));
  });
}

// Tasks and vectors are cut at other places here. The bits of an element must not change.
TEST(SoftCapTest, ElementsDoNotDependOnTheirNeighbours) {
  const auto x = Input<float>::Normal(9000, 2, 0, 20.0);
  ForEachDevice([&](Stream& stream) {
    Output<float> together(x, 0);
    SoftCap({.x = together.data(), .n = 9000, .cap = 30.0f}, stream);
    Output<float> apart(x, 0);
    for (int64_t i = 0; i < 9000; i += 37) {
      SoftCap({.x = apart.data() + i, .n = std::min<int64_t>(37, 9000 - i), .cap = 30.0f}, stream);
    }
    Synchronize(stream);
    EXPECT_TRUE(testing::BitEqual(together.data(), apart.data(), 9000));
  });
}

TEST(SoftCapDeathTest, RefusesBadShapes) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  float x = 1.0f;
  SoftCap({.x = &x, .n = 1, .cap = 1.0f}, stream);
  EXPECT_DEATH(SoftCap({.x = &x, .n = 1}, stream), "cap");
  EXPECT_DEATH(SoftCap({.n = 1, .cap = 1.0f}, stream), "x");
}

}  // namespace soft_cap_test
}  // namespace graft
