#include "sim/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace graft {
namespace {

// The mean of the gaps, and their coefficient of variation.
std::pair<double, double> GapsOf(const std::vector<double>& arrivals) {
  std::vector<double> gaps(arrivals.size());
  std::adjacent_difference(arrivals.begin(), arrivals.end(), gaps.begin());
  const double n = static_cast<double>(gaps.size());
  const double mean = std::accumulate(gaps.begin(), gaps.end(), 0.0) / n;
  double squares = 0.0;
  for (const double gap : gaps) squares += (gap - mean) * (gap - mean);
  return {mean, std::sqrt(squares / n) / mean};
}

TEST(ArrivalsTest, GammaGapsHaveTheRateAndTheVariation) {
  for (const double cv : {0.25, 1.0, 2.0, 4.0}) {
    Random random(7);
    const std::vector<double> arrivals = GammaArrivals(20.0, cv, 5000.0, random);
    EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
    EXPECT_LT(arrivals.back(), 5000.0);
    const auto [mean, variation] = GapsOf(arrivals);
    EXPECT_NEAR(mean, 0.05, 0.05 * 0.03 * std::max(1.0, cv)) << cv;
    EXPECT_NEAR(variation, cv, 0.05 * cv) << cv;
  }
}

TEST(ArrivalsTest, NoVariationIsAMetronome) {
  Random random(1);
  const std::vector<double> arrivals = GammaArrivals(4.0, 0.0, 1.0, random);
  EXPECT_EQ(arrivals, (std::vector<double>{0.25, 0.5, 0.75}));
}

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

TEST(ArrivalsTest, PowerLawIsUniformAtOneAndSkewedBelow) {
  for (const double weight : PowerLawWeights(8, 1.0)) EXPECT_NEAR(weight, 0.125, 1e-12);
  const std::vector<double> skewed = PowerLawWeights(100, 0.3);
  EXPECT_TRUE(std::is_sorted(skewed.rbegin(), skewed.rend()));
  EXPECT_NEAR(std::accumulate(skewed.begin(), skewed.end(), 0.0), 1.0, 1e-12);
  EXPECT_NEAR(skewed[0], std::pow(0.01, 0.3), 1e-12);
  EXPECT_GT(PowerLawWeights(100, 0.1)[0], skewed[0]);
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
