#include "sim/simulated_workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace graft {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

TEST(SimulatedWorkloadTest, ATraceIsServedAsItCame) {
  SimWorkloadOptions options;
  options.ranks = {8, 64};
  options.num_requests = 3;
  const SimWorkload workload = WorkloadOfTrace({{.arrival_seconds = 0.0, .prompt_tokens = 7},
                                                {0.5, 2, 10, 20},
                                                {0.75, -1, 200, 1},
                                                {2.0, 0, 5, 60},
                                                {3.0, 9, 5, 5}},
                                               options, 100);
  ASSERT_EQ(workload.requests.size(), 3u) << "the first has no length, the last is one too many";
  EXPECT_EQ(workload.requests[0].arrival_ns, 500'000'000);
  EXPECT_EQ(workload.requests[0].adapter, 2);
  EXPECT_EQ(workload.requests[1].adapter, kBaseModel);
  EXPECT_EQ(workload.requests[1].prompt_tokens, 50);
  EXPECT_EQ(workload.requests[2].output_tokens, 50);
  EXPECT_THAT(workload.adapters.ranks, ElementsAre(8, 64, 8));
}

// As Alibaba's arrivals, which are of pictures.
TEST(SimulatedWorkloadTest, LengthsThatATraceDoesNotHaveAreDrawn) {
  SimWorkloadOptions options;
  options.prompt_tokens = 50;
  std::vector<TraceRequest> trace;
  for (int i = 0; i < 2000; ++i) trace.push_back({.arrival_seconds = 0.5 * i, .adapter = i % 7});
  const SimWorkload workload = WorkloadOfTrace(trace, options, 4096);
  ASSERT_EQ(workload.requests.size(), 2000u);
  EXPECT_EQ(workload.requests[9].arrival_ns, 4'500'000'000);
  EXPECT_EQ(workload.requests[9].adapter, 2);
  double prompts = 0.0, outputs = 0.0;
  for (const SimRequest& one : workload.requests) {
    prompts += one.prompt_tokens / 2000.0;
    outputs += one.output_tokens / 2000.0;
  }
  EXPECT_NEAR(prompts, 50.0, 4.0);
  EXPECT_NEAR(outputs, 200.0, 16.0);
  options.lengths = {{3, 4}};
  const SimWorkload given = WorkloadOfTrace(trace, options, 4096);
  EXPECT_EQ(given.requests[1].prompt_tokens, 3);
  EXPECT_EQ(given.requests[1].output_tokens, 4);
}

TEST(SimulatedWorkloadTest, PromptsBeginAsOneOfSome) {
  SimWorkloadOptions options;
  options.num_requests = 3000;
  options.num_prefixes = 3;
  options.prefix_tokens = 1000;
  options.prompt_tokens = 100;
  std::map<int32_t, int> num_of_prefix;
  for (const SimRequest& one : MakeSimWorkload(options, 4096).requests) {
    ++num_of_prefix[one.prefix];
    EXPECT_GT(one.prompt_tokens, one.prefix_tokens);
    EXPECT_LE(one.prompt_tokens, 2048);
  }
  EXPECT_EQ(num_of_prefix.size(), 3u);
  EXPECT_NEAR(num_of_prefix[0], 3000 / (1 + 1.0 / 2 + 1.0 / 3), 120) << "Zipf's law";
}

TEST(SimulatedWorkloadTest, FollowsItsOptions) {
  SimWorkloadOptions options;
  options.num_requests = 20'000;
  options.num_adapters = 100;
  options.ranks = {8, 64};
  options.prompt_tokens = 100;
  options.output_tokens = 40;
  options.requests_per_second = 50;
  const SimWorkload workload = MakeSimWorkload(options, 4096);
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

TEST(SimulatedWorkloadTest, ADaySwings) {
  SimWorkloadOptions options;
  options.num_requests = 20'000;
  options.requests_per_second = 100;
  options.day_seconds = 200;  // a day: half of it busy
  int64_t num_busy = 0;
  for (const SimRequest& one : MakeSimWorkload(options, 4096).requests) {
    num_busy += one.arrival_ns < 100'000'000'000 ? 1 : 0;
  }
  // The mean of 1 + sin / 2 over half a turn is 1 + 1 / pi.
  EXPECT_NEAR(static_cast<double>(num_busy), 100 * 100 * (1 + 1 / 3.14159), 300);
}

TEST(SimulatedWorkloadTest, ACrowdAsksForOneAdapter) {
  SimWorkloadOptions options;
  options.num_requests = 10'000;
  options.num_adapters = 1000;
  options.requests_per_second = 100;
  options.crowd_at_seconds = 20;
  options.crowd_seconds = 10;
  options.crowd_share = 0.7;
  int64_t num_inside = 0, num_outside = 0;
  for (const SimRequest& one : MakeSimWorkload(options, 4096).requests) {
    if (one.adapter != 999) continue;
    const bool is_inside = one.arrival_ns >= 20'000'000'000 && one.arrival_ns < 30'000'000'000;
    ++(is_inside ? num_inside : num_outside);
  }
  EXPECT_NEAR(static_cast<double>(num_inside), 700, 80);
  EXPECT_LT(num_outside, 10);
}

// A hundred adapters that live for 20 s: in 100 s five hundred others come.
TEST(SimulatedWorkloadTest, AdaptersComeAndGo) {
  SimWorkloadOptions options;
  options.num_requests = 10'000;
  options.num_adapters = 100;
  options.zipf = 0;
  options.requests_per_second = 100;
  options.adapter_life_seconds = 20;
  const SimWorkload workload = MakeSimWorkload(options, 4096);
  EXPECT_NEAR(static_cast<double>(workload.adapters.ranks.size()), 600, 80);
  int64_t num_first_ones = 0;
  for (const SimRequest& one : workload.requests) {
    ASSERT_LT(static_cast<size_t>(one.adapter), workload.adapters.ranks.size());
    num_first_ones += one.arrival_ns > 60'000'000'000 && one.adapter < 100 ? 1 : 0;
  }
  // The share of 4,000 requests is e^-3 at first and falls to e^-5: 86.
  EXPECT_NEAR(static_cast<double>(num_first_ones), 86, 60);
}

TEST(SimulatedWorkloadTest, DrawsGivenLengths) {
  SimWorkloadOptions options;
  options.num_requests = 50;
  options.lengths = {{7, 3}, {10'000, 10'000}};
  for (const SimRequest& one : MakeSimWorkload(options, 4096).requests) {
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
  cluster.runner.limits.sequences_max = 4;
  CostModel& costs = cluster.runner.costs;
  costs.step_ms = 10;
  costs.step_ms_per_row = 1;
  costs.step_ms_per_unit = costs.step_ms_per_context_token = 0;
  costs.step_ms_per_prompt_token = 0.1;
  EXPECT_NEAR(RateOfLoad(0.5, workload, cluster), 0.5 * 3 * 4 / 0.284, 1e-9);
}

// Two adapters, alike, for two places: each is asked for by m/2 requests at once on average, so
// that 2 (1 - e^(-m/2)) of them are taken. A request stays 1,000 ms of loading and 20 steps of 10.
TEST(SimulatedWorkloadTest, LoadIsAShareOfPlacesThatAreTaken) {
  SimWorkloadOptions workload;
  workload.num_adapters = 2;
  workload.zipf = 0;
  workload.output_tokens = 20;
  SimClusterOptions cluster;
  cluster.num_runners = 1;
  cluster.runner.limits.adapters_max = 2;
  CostModel& costs = cluster.runner.costs;
  costs = {};
  costs.step_ms = 10;
  costs.step_ms_per_row = costs.step_ms_per_unit = costs.step_ms_per_context_token = 0;
  costs.step_ms_per_prompt_token = 0;
  costs.load_ms = costs.load_ms_per_rank = 0;
  EXPECT_NEAR(RateOfPlaces(0.5, 1000, workload, cluster), 2 * std::log(2) / 1.2, 1e-9);
  EXPECT_EQ(RateOfPlaces(1.0, 1000, workload, cluster), 0.0) << "all adapters have places";
}

}  // namespace
}  // namespace graft
