#include "bench/bench_workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace graft {
namespace {

std::map<int32_t, int> Histogram(const std::vector<int32_t>& adapters) {
  std::map<int32_t, int> counts;
  for (const int32_t adapter : adapters) ++counts[adapter];
  return counts;
}

TEST(BenchWorkloadTest, LawsUseTheAdaptersTheyShould) {
  Random random(1);
  EXPECT_EQ(Histogram(AssignAdapters(Popularity::kDistinct, 64, 64, random)).size(), 64u);
  EXPECT_EQ(Histogram(AssignAdapters(Popularity::kIdentical, 64, 64, random)).size(), 1u);
  const auto uniform = Histogram(AssignAdapters(Popularity::kUniform, 64, 64, random));
  EXPECT_EQ(uniform.size(), 8u);
  for (const auto& [adapter, count] : uniform) EXPECT_EQ(count, 8) << adapter;
  EXPECT_EQ(Histogram(AssignAdapters(Popularity::kUniform, 64, 3, random)).size(), 3u);
}

TEST(BenchWorkloadTest, SkewedIsGeometric) {
  Random random(2);
  const auto skewed = Histogram(AssignAdapters(Popularity::kSkewed, 10000, 10000, random));
  EXPECT_NEAR(static_cast<double>(skewed.at(0)) / skewed.at(1), 1.5, 0.15);
  EXPECT_NEAR(static_cast<double>(skewed.at(1)) / skewed.at(2), 1.5, 0.15);
}

TEST(BenchWorkloadTest, PoissonArrivalsAscendAtTheRate) {
  Random random(3);
  const std::vector<double> arrivals = ArrivalSeconds(10000, 50.0, random);
  EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
  EXPECT_NEAR(arrivals.back(), 200.0, 10.0);
  EXPECT_EQ(ArrivalSeconds(3, 0.0, random), std::vector<double>(3, 0.0));
}

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

TEST(BenchWorkloadTest, GammaGapsHaveTheRateAndTheVariation) {
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

TEST(BenchWorkloadTest, NoVariationIsAMetronome) {
  Random random(1);
  const std::vector<double> arrivals = GammaArrivals(4.0, 0.0, 1.0, random);
  EXPECT_EQ(arrivals, (std::vector<double>{0.25, 0.5, 0.75}));
}

TEST(BenchWorkloadTest, PowerLawIsUniformAtOneAndSkewedBelow) {
  for (const double weight : PowerLawWeights(8, 1.0)) EXPECT_NEAR(weight, 0.125, 1e-12);
  const std::vector<double> skewed = PowerLawWeights(100, 0.3);
  EXPECT_TRUE(std::is_sorted(skewed.rbegin(), skewed.rend()));
  EXPECT_NEAR(std::accumulate(skewed.begin(), skewed.end(), 0.0), 1.0, 1e-12);
  EXPECT_NEAR(skewed[0], std::pow(0.01, 0.3), 1e-12);
  EXPECT_GT(PowerLawWeights(100, 0.1)[0], skewed[0]);
}

TEST(BenchWorkloadTest, ScalesToARate) {
  std::vector<TraceRequest> trace(100);
  for (size_t i = 0; i < trace.size(); ++i) trace[i].arrival_seconds = static_cast<double>(i * i);
  const auto scaled = ScaleTrace(trace, 5.0, 8.0);
  ASSERT_EQ(scaled.size(), 40u);
  EXPECT_NEAR(scaled.back().arrival_seconds, 8.0, 1e-9);
  EXPECT_NEAR(scaled[20].arrival_seconds / scaled[10].arrival_seconds, 4.0, 1e-9)
      << "bursts keep their shape";
  EXPECT_EQ(ScaleTrace(trace, 1000.0, 8.0).size(), 100u);
  EXPECT_TRUE(ScaleTrace({}, 1.0, 1.0).empty());
}

TEST(BenchWorkloadTest, SatisfactionFallsWithTheSquareOfTheWait) {
  EXPECT_EQ(UserSatisfaction({}), 0.0);
  EXPECT_EQ(UserSatisfaction({0.0}), 1.0);
  EXPECT_NEAR(UserSatisfaction({3000.0}), 0.75, 1e-12);
  EXPECT_EQ(UserSatisfaction({6000.0}), 0.0);
  EXPECT_NEAR(UserSatisfaction({0.0, kNeverMs}), 0.5, 1e-12);
}

}  // namespace
}  // namespace graft
