#include "sim/simulated_workload.h"

#include <gtest/gtest.h>

#include <numeric>

namespace graft {
namespace {

TEST(ArrivalsTest, GammaDrawsHaveMeanAndVarianceOfTheShape) {
  for (const double shape : {0.0625, 0.5, 1.0, 3.0, 16.0}) {
    Random random(3);
    constexpr int kDraws = 200000;
    double sum = 0.0;
    double squares = 0.0;
    for (int i = 0; i < kDraws; ++i) {
      const double draw = DrawGamma(shape, random);
      ASSERT_GE(draw, 0.0);
      sum += draw;
      squares += draw * draw;
    }
    const double mean = sum / kDraws;
    EXPECT_NEAR(mean, shape, 0.03 * shape) << shape;
    EXPECT_NEAR(squares / kDraws - mean * mean, shape, 0.06 * shape) << shape;
  }
}

TEST(ArrivalsTest, ZipfFallsWithTheRank) {
  const std::vector<double> weights = ZipfWeights(10, 1.0);
  EXPECT_NEAR(weights[0] / weights[9], 10.0, 1e-9);
  EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1.0, 1e-12);
  EXPECT_NEAR(ZipfWeights(10, 0.0)[9], 0.1, 1e-12);
}

TEST(ArrivalsTest, PicksByWeight) {
  const WeightedPicker picker({1.0, 0.0, 3.0});
  Random random(5);
  std::vector<int> counts(3);
  for (int i = 0; i < 40000; ++i) ++counts[static_cast<size_t>(picker.Pick(random))];
  EXPECT_NEAR(counts[0], 10000, 400);
  EXPECT_EQ(counts[1], 0);
}

}  // namespace
}  // namespace graft
