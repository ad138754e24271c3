#include "sim/simulation_report.h"
#include "sim/trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace graft {
namespace {

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

TEST(WorkloadTest, AttainmentCountsLatenciesInTime) {
  EXPECT_EQ(SloAttainment({}, 15.0), 0.0);
  EXPECT_EQ(SloAttainment({10.0, 15.0, 15.1, 1e300}, 15.0), 0.5);
}

}  // namespace
}  // namespace graft
