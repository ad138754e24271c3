#include "sim/simulated_workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace graft {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

TEST(SimulatedWorkloadTest, FollowsItsOptions) {
  SimWorkloadOptions options;
  options.num_requests = 20'000;
  options.num_adapters = 100;
  options.ranks = {8, 64};
  options.prompt_tokens = 100;
  options.output_tokens = 40;
  options.requests_per_second = 50;
  const SimWorkload workload = MakeSimWorkload(options);
  ASSERT_EQ(workload.requests.size(), 20'000u);
  std::map<int32_t, int> num_of_adapter;
  double prompt = 0.0, output = 0.0;
  int64_t last_ns = 0;
  for (const SimRequest& one : workload.requests) {
    ++num_of_adapter[one.adapter];
    prompt += one.prompt_tokens;
    output += one.output_tokens;
    EXPECT_GE(one.arrival_ns, last_ns);
    EXPECT_GE(one.prompt_tokens, 1);
    EXPECT_LE(one.prompt_tokens, 2048);
    last_ns = one.arrival_ns;
  }
  EXPECT_NEAR(static_cast<double>(last_ns) * 1e-9, 400, 12);
  EXPECT_NEAR(prompt / 20'000, 100, 3);
  EXPECT_NEAR(output / 20'000, 40, 1.5);
  // Zipf: the first has 1 / H(100) = 0.1928 of them, the second half of that.
  EXPECT_NEAR(num_of_adapter[0], 3856, 220);
  EXPECT_NEAR(num_of_adapter[1], 1928, 160);
  for (const int32_t rank : workload.adapters.ranks) EXPECT_TRUE(rank == 8 || rank == 64);
}

TEST(SimulatedWorkloadTest, DrawsGivenLengths) {
  SimWorkloadOptions options;
  options.num_requests = 50;
  options.lengths = {{7, 3}, {10'000, 10'000}};
  for (const SimRequest& one : MakeSimWorkload(options).requests) {
    EXPECT_TRUE((one.prompt_tokens == 7 && one.output_tokens == 3) ||
                (one.prompt_tokens == 2048 && one.output_tokens == 2048));
  }
}

TEST(SimulatedWorkloadTest, StretchesWeightsOverMoreAdapters) {
  EXPECT_THAT(StretchWeights({4, 2}, 2), ElementsAre(DoubleEq(4), DoubleEq(2)));
  // Places -0.25, 0.25, 0.75 and 1.25 of the two.
  EXPECT_THAT(StretchWeights({4, 2}, 4),
              ElementsAre(DoubleEq(4), DoubleEq(3.5), DoubleEq(2.5), DoubleEq(2)));
  EXPECT_THAT(StretchWeights({6, 5, 1, 0}, 2), ElementsAre(DoubleEq(5.5), DoubleEq(0.5)));
}

// A full batch of 4: 10 + 4 ms a step, 20 steps an answer, 4 prompts of 1 ms: 284 ms for 4.
TEST(SimulatedWorkloadTest, LoadIsAShareOfFullBatches) {
  SimWorkloadOptions workload;
  workload.prompt_tokens = 10;
  workload.output_tokens = 20;
  SimClusterOptions cluster;
  cluster.num_runners = 3;
  cluster.runner.batch_max = 4;
  CostModel& costs = cluster.runner.costs;
  costs.step_ms = 10;
  costs.step_ms_per_row = 1;
  costs.step_ms_per_unit = costs.step_ms_per_context_token = 0;
  costs.step_ms_per_prompt_token = 0.1;
  EXPECT_NEAR(RateOfLoad(0.5, workload, cluster), 0.5 * 3 * 4 / 0.284, 1e-9);
}

}  // namespace
}  // namespace graft
