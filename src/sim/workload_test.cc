#include "sim/workload.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

namespace graft {
namespace {

std::map<int32_t, int> Histogram(const std::vector<int32_t>& adapters) {
  std::map<int32_t, int> counts;
  for (const int32_t adapter : adapters) ++counts[adapter];
  return counts;
}

TEST(WorkloadTest, LawsUseTheAdaptersTheyShould) {
  Random random(1);
  EXPECT_EQ(Histogram(AssignAdapters(Popularity::kDistinct, 64, 64, random)).size(), 64u);
  EXPECT_EQ(Histogram(AssignAdapters(Popularity::kIdentical, 64, 64, random)).size(), 1u);
  const auto uniform = Histogram(AssignAdapters(Popularity::kUniform, 64, 64, random));
  EXPECT_EQ(uniform.size(), 8u);
  for (const auto& [adapter, count] : uniform) EXPECT_EQ(count, 8) << adapter;
  EXPECT_EQ(Histogram(AssignAdapters(Popularity::kUniform, 64, 3, random)).size(), 3u);
}

TEST(WorkloadTest, SkewedIsGeometric) {
  Random random(2);
  const auto skewed = Histogram(AssignAdapters(Popularity::kSkewed, 10000, 10000, random));
  EXPECT_NEAR(static_cast<double>(skewed.at(0)) / skewed.at(1), 1.5, 0.15);
  EXPECT_NEAR(static_cast<double>(skewed.at(1)) / skewed.at(2), 1.5, 0.15);
}

TEST(WorkloadTest, PoissonArrivalsAscendAtTheRate) {
  Random random(3);
  const std::vector<double> arrivals = ArrivalSeconds(10000, 50.0, random);
  EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
  EXPECT_NEAR(arrivals.back(), 200.0, 10.0);
  EXPECT_EQ(ArrivalSeconds(3, 0.0, random), std::vector<double>(3, 0.0));
}

TEST(WorkloadTest, ReadsLengthsByColumnName) {
  const std::string path = std::filesystem::temp_directory_path() /
                           ("graft_workload_test_" + std::to_string(getpid()) + ".csv");
  std::ofstream(path) << "time,ContextTokens,GeneratedTokens\n1,10,20\n2,0,5\n3,7,8\nbroken\n";
  const auto lengths = ReadLengths(path);
  ASSERT_TRUE(lengths.ok()) << lengths.status().ToString();
  ASSERT_EQ(lengths->size(), 2u);
  EXPECT_EQ((*lengths)[1].output_tokens, 8);
  std::ofstream(path) << "num_prefill_tokens,num_decode_tokens,num_total_tokens\n7,9,16\n";
  EXPECT_EQ((*ReadLengths(path))[0].output_tokens, 9);
  std::ofstream(path) << "a,b\n1,2\n";
  EXPECT_FALSE(ReadLengths(path).ok());
  std::filesystem::remove(path);
  EXPECT_FALSE(ReadLengths(path).ok());
}

TEST(WorkloadTest, PercentilesAreNearestRank) {
  const Percentiles p = ComputePercentiles({4, 1, 3, 2});
  EXPECT_EQ(p.mean, 2.5);
  EXPECT_EQ(p.p50, 2);
  EXPECT_EQ(p.p90, 4);
  EXPECT_EQ(ComputePercentiles({}).p99, 0);
}

}  // namespace
}  // namespace graft
