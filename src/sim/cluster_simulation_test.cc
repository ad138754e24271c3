// Simulated clusters small enough to work out by hand, and what must hold of all.
#include "sim/cluster_simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "sim/simulated_workload.h"
#include "sim/simulation_report.h"

namespace graft {
namespace {

constexpr int64_t kMs = 1'000'000;

// Steps of 10 ms, 1 more a row and 0.1 a further token of a prompt; copies of 40 ms.
SimClusterOptions TestCluster(int32_t num_runners, PlacementKind placement) {
  SimClusterOptions options;
  options.num_runners = num_runners;
  CostModel& costs = options.runner.costs;
  costs.step_ms = 10;
  costs.step_ms_per_row = 1;
  costs.step_ms_per_unit = 0;
  costs.step_ms_per_prompt_token = 0.1;
  costs.step_ms_per_context_token = 0;
  costs.load_ms = 40;
  costs.load_ms_per_rank = 0;
  options.runner.limits.sequences_max = 4;
  options.runner.limits.context_tokens_max = 512;
  options.runner.limits.num_pages = 512;  // runners with few begin and fail sooner
  options.placement.kind = placement;
  options.placement.costs = costs;
  return options;
}

SimWorkload WorkloadOf(std::vector<SimRequest> requests, int32_t num_adapters = 4) {
  SimWorkload workload;
  workload.adapters.ranks.assign(static_cast<size_t>(num_adapters), 16);
  workload.requests = std::move(requests);
  return workload;
}

SimResult RunOf(const SimWorkload& workload, const SimClusterOptions& options) {
  return ClusterSimulation(workload, options).Run();
}

// Prompts of 321 tokens are 10 + 1 + 32 ms, and 11 with their first 320 cached. They go where they
// are, though both runners are idle.
TEST(ClusterSimulationTest, APrefixIsComputedOnceOnARunner) {
  SimClusterOptions options = TestCluster(2, PlacementKind::kAuto);
  std::vector<SimRequest> requests;
  for (const int64_t ms : {0, 1000, 2000}) {
    requests.push_back({.arrival_ns = ms * kMs,
                        .prompt_tokens = 321,
                        .output_tokens = 1,
                        .prefix = 0,
                        .prefix_tokens = 320});
  }
  requests.push_back(requests.back());
  requests.back().arrival_ns = 3000 * kMs;
  requests.back().prefix = 1;
  for (const bool has_cache : {false, true}) {
    options.runner.engine.scheduler.prefix_cache = has_cache;
    const SimResult result = RunOf(WorkloadOf(requests), options);
    EXPECT_EQ(result.outcomes[0].first_ns, 43 * kMs);
    for (const size_t i : {1, 2}) {
      EXPECT_EQ(result.outcomes[i].first_ns - requests[i].arrival_ns, (has_cache ? 11 : 43) * kMs);
      if (has_cache) {
        EXPECT_EQ(result.outcomes[i].runner, result.outcomes[0].runner);
      }
    }
    EXPECT_EQ(result.outcomes[3].first_ns - requests[3].arrival_ns, 43 * kMs) << "another prefix";
    EXPECT_EQ(result.runners[0].prefix_hit_tokens + result.runners[1].prefix_hit_tokens,
              has_cache ? 640 : 0);
  }
}

// A prompt of 21 tokens is 10 + 1 + 2 ms, each of three further tokens 11.
TEST(ClusterSimulationTest, ARequestAloneTakesItsSteps) {
  const SimWorkload workload =
      WorkloadOf({{.arrival_ns = 5 * kMs, .prompt_tokens = 21, .output_tokens = 4}});
  const SimResult result = RunOf(workload, TestCluster(1, PlacementKind::kMostIdle));
  EXPECT_EQ(result.outcomes[0].first_ns, (5 + 13) * kMs);
  EXPECT_EQ(result.outcomes[0].end_ns, (5 + 13 + 33) * kMs);
  EXPECT_EQ(result.runners[0].steps, 4);
  EXPECT_DOUBLE_EQ(result.runners[0].busy_seconds, 0.046);
}

// The second comes while the first step runs, until 11 ms. The next one has both rows: 12 ms.
TEST(ClusterSimulationTest, ANewcomerJoinsWithTheNextStep) {
  const SimWorkload workload = WorkloadOf(
      {{.arrival_ns = 0, .output_tokens = 3}, {.arrival_ns = 2 * kMs, .output_tokens = 2}});
  const SimResult result = RunOf(workload, TestCluster(1, PlacementKind::kMostIdle));
  EXPECT_EQ(result.outcomes[0].first_ns, 11 * kMs);
  EXPECT_EQ(result.outcomes[1].first_ns, 23 * kMs);
  EXPECT_EQ(result.outcomes[0].end_ns, 35 * kMs);
  EXPECT_EQ(result.outcomes[1].end_ns, 35 * kMs);
}

// A step of 11 ms takes twice as long while the other runner computes. The second comes when the
// first's is half done, and is done at 27.5 ms, half into the first's second one.
TEST(ClusterSimulationTest, RunnersOfAMachineSlowEachOther) {
  const SimWorkload workload = WorkloadOf(
      {{.arrival_ns = 0, .output_tokens = 2}, {.arrival_ns = 11 * kMs / 2, .output_tokens = 1}});
  SimClusterOptions options = TestCluster(2, PlacementKind::kMostIdle);
  options.runner.costs.served.decode_slowness = {1, 2};
  options.runner.costs.served.prompt_slowness = {1, 1.5};
  for (const int32_t machine_runners : {1, 2}) {
    options.machine_runners = machine_runners;
    const SimResult result = RunOf(workload, options);
    ASSERT_NE(result.outcomes[0].runner, result.outcomes[1].runner);
    const bool is_shared = machine_runners == 2;
    EXPECT_EQ(result.outcomes[0].first_ns, (is_shared ? 33 : 22) * kMs / 2);
    EXPECT_EQ(result.outcomes[1].first_ns, (is_shared ? 55 : 33) * kMs / 2);
    EXPECT_EQ(result.outcomes[0].end_ns, (is_shared ? 33 : 22) * kMs);
  }
  const SimWorkload prompts =
      WorkloadOf({{.arrival_ns = 0, .prompt_tokens = 21, .output_tokens = 1},
                  {.arrival_ns = 0, .prompt_tokens = 21, .output_tokens = 1}});
  const SimResult result = RunOf(prompts, options);
  EXPECT_EQ(result.outcomes[0].first_ns, (2 * 11 + 3) * kMs);
  EXPECT_EQ(result.outcomes[1].first_ns, (2 * 11 + 3) * kMs);
}

// Three runners on machines of two: the third has one for itself.
TEST(ClusterSimulationTest, AMachineMayHaveFewerRunners) {
  const SimWorkload workload = WorkloadOf({{}, {}, {}});
  SimClusterOptions options = TestCluster(3, PlacementKind::kFirstFit);
  options.runner.limits.sequences_max = 1;
  options.runner.costs.served.decode_slowness = {1, 2};
  options.machine_runners = 2;
  const SimResult result = RunOf(workload, options);
  std::vector<int64_t> first_ms;
  for (const SimOutcome& outcome : result.outcomes) first_ms.push_back(outcome.first_ns / kMs);
  EXPECT_THAT(first_ms, testing::UnorderedElementsAre(22, 22, 11));
}

// Runners that share a machine die at any moment, and nothing is lost.
TEST(ClusterSimulationTest, RunnersOfAMachineMayFail) {
  SimWorkloadOptions asked;
  asked.num_requests = 300;
  asked.num_adapters = 4;
  asked.requests_per_second = 60;
  asked.prompt_tokens = 20;
  asked.output_tokens = 10;
  SimClusterOptions options = TestCluster(4, PlacementKind::kMostIdle);
  options.runner.costs.served = {.first_token_ms = 3, .step_ms = 0.5};
  options.runner.costs.served.decode_slowness = {1, 1.5};
  options.runner.costs.served.prompt_slowness = {1, 1.25};
  options.machine_runners = 4;
  options.failures = {.every_seconds = 0.5, .down_seconds = 0.2, .slowness = 3, .slow_seconds = 1};
  const SimWorkload workload = MakeSimWorkload(asked, 512);
  const SimResult result = RunOf(workload, options);
  EXPECT_GT(result.failures, 2);
  int64_t num_drawn = 0;
  for (size_t i = 0; i < result.outcomes.size(); ++i) {
    EXPECT_FALSE(result.outcomes[i].is_refused);
    EXPECT_GE(result.outcomes[i].first_ns - workload.requests[i].arrival_ns, 14 * kMs);
    num_drawn += workload.requests[i].output_tokens;
  }
  EXPECT_GT(num_drawn, 1000);
  const SimResult again = RunOf(workload, options);
  for (size_t i = 0; i < result.outcomes.size(); ++i) {
    EXPECT_EQ(result.outcomes[i].end_ns, again.outcomes[i].end_ns);
  }
}

// 4 ms until its runner has it, and a millisecond more for each step of 11.
TEST(ClusterSimulationTest, ServingTakesItsTime) {
  const SimWorkload workload = WorkloadOf({{.arrival_ns = 5 * kMs, .output_tokens = 3}});
  SimClusterOptions options = TestCluster(1, PlacementKind::kMostIdle);
  options.runner.costs.served = {.first_token_ms = 4, .step_ms = 1};
  const SimResult result = RunOf(workload, options);
  EXPECT_EQ(result.outcomes[0].first_ns, (5 + 4 + 12) * kMs);
  EXPECT_EQ(result.outcomes[0].end_ns, (5 + 4 + 36) * kMs);
}

// 40 ms of copy, then a step; the second finds the adapter there.
TEST(ClusterSimulationTest, AColdRequestWaitsForItsCopyOnce) {
  const SimWorkload workload =
      WorkloadOf({{.arrival_ns = 0, .adapter = 2}, {.arrival_ns = 200 * kMs, .adapter = 2}});
  const SimResult result = RunOf(workload, TestCluster(1, PlacementKind::kMostIdle));
  EXPECT_EQ(result.outcomes[0].first_ns, 51 * kMs);
  EXPECT_EQ(result.outcomes[1].first_ns, 211 * kMs);
  EXPECT_EQ(result.runners[0].adapter_copies, 1);
}

// Frontends hear which adapters are on their way to runners for others' requests. If they did not,
// four of them would load 1.13 times as many as one does.
TEST(ClusterSimulationTest, FrontendsSeldomLoadWhatOthersAreLoading) {
  SimWorkloadOptions asked;
  asked.num_requests = 1500;
  asked.num_adapters = 250;
  asked.requests_per_second = 6.5;
  asked.prompt_tokens = asked.output_tokens = 20;
  SimClusterOptions options;
  options.num_runners = 4;
  options.runner.limits.adapters_max = 8;
  options.runner.loader.host_adapters = 8;
  options.runner.costs.fetch_ms = 5000;
  options.placement.kind = PlacementKind::kAuto;
  options.placement.costs = options.runner.costs;
  int64_t alone = 0, together = 0;
  for (const uint64_t seed : {1, 2, 3}) {
    asked.seed = options.placement.seed = seed;
    SimWorkload workload = MakeSimWorkload(asked, 4096);
    workload.fetch_ms = {5000};
    for (const int32_t num_frontends : {1, 4}) {
      options.num_frontends = num_frontends;
      options.view_ms = num_frontends == 1 ? 0.0 : 100.0;
      for (const SimRunnerFigures& runner : RunOf(workload, options).runners) {
        (num_frontends == 1 ? alone : together) += runner.adapter_copies;
      }
    }
  }
  EXPECT_LT(static_cast<double>(together), 1.1 * static_cast<double>(alone));
}

// From its folder it takes 100 ms more, whenever the host's memory holds another one instead.
TEST(ClusterSimulationTest, TheHostsMemoryHoldsTheLastOnes) {
  SimWorkload workload = WorkloadOf({{.arrival_ns = 0, .adapter = 0},
                                     {.arrival_ns = 1000 * kMs, .adapter = 1},
                                     {.arrival_ns = 2000 * kMs, .adapter = 0},
                                     {.arrival_ns = 3000 * kMs, .adapter = 0}});
  workload.fetch_ms = {100};
  SimClusterOptions options = TestCluster(1, PlacementKind::kMostIdle);
  options.runner.loader.host_adapters = 1;
  options.runner.limits.adapters_max = 1;
  const SimResult result = RunOf(workload, options);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(result.outcomes[i].first_ns - workload.requests[i].arrival_ns, 151 * kMs) << i;
  }
  EXPECT_EQ(result.outcomes[3].first_ns - workload.requests[3].arrival_ns, 11 * kMs);
  EXPECT_EQ(result.runners[0].adapter_evictions, 2);
}

// Two readers: the third fetch begins when one of them is free. A fetch of more than 2 s leaves its
// reader to others then, and the copies follow one another.
TEST(ClusterSimulationTest, FetchesTakeTurnsAtTwoReaders) {
  const auto first_ms_of = [](double fetch_ms) {
    SimWorkload workload = WorkloadOf({{.adapter = 0}, {.adapter = 1}, {.adapter = 2}});
    workload.fetch_ms = {fetch_ms};
    SimClusterOptions options = TestCluster(1, PlacementKind::kMostIdle);
    options.runner.loader.host_adapters = 3;
    return RunOf(workload, options).outcomes[2].first_ns / kMs;
  };
  EXPECT_EQ(first_ms_of(1000), 1000 + 1000 + 40 + 11);
  EXPECT_EQ(first_ms_of(5000), 2000 + 5000 + 40 + 11);
}

// Steps of 11 ms. A request that has drawn two tokens when its runner dies, at 22 ms or later, goes
// on with the third: its prompt and what it has drawn are computed anew.
TEST(ClusterSimulationTest, ARequestGoesOnElsewhereWhenItsRunnerFails) {
  SimClusterOptions options = TestCluster(2, PlacementKind::kMostIdle);
  options.failures = {.every_seconds = 0.05, .down_seconds = 0.01, .slowness = 3.0};
  std::vector<SimRequest> requests(20, SimRequest{.prompt_tokens = 11, .output_tokens = 30});
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].arrival_ns = static_cast<int64_t>(i) * 50 * kMs;
  }
  const SimWorkload workload = WorkloadOf(std::move(requests));
  const SimResult result = RunOf(workload, options);
  EXPECT_GT(result.failures, 3);
  EXPECT_GT(result.moves, 3);
  int64_t num_drawn = 0;
  for (const SimRunnerFigures& one : result.runners) num_drawn += one.output_tokens;
  EXPECT_EQ(num_drawn, 20 * 30) << "each token is drawn once";
  for (const SimOutcome& one : result.outcomes) EXPECT_FALSE(one.is_refused);
}

// One runner is slow after it came back: three times 11 ms a step, until that has passed.
TEST(ClusterSimulationTest, ARunnerComesBackSlow) {
  SimClusterOptions options = TestCluster(2, PlacementKind::kMostIdle);
  options.failures = {
      .every_seconds = 0.5, .down_seconds = 0.0, .slowness = 3.0, .slow_seconds = 1.0};
  std::vector<SimRequest> requests(100);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].arrival_ns = static_cast<int64_t>(i) * 100 * kMs;
  }
  const SimWorkload workload = WorkloadOf(std::move(requests));
  const SimResult result = RunOf(workload, options);
  int num_fast = 0, num_slow = 0;
  for (size_t i = 0; i < 100; ++i) {
    const int64_t ms = (result.outcomes[i].first_ns - workload.requests[i].arrival_ns) / kMs;
    num_fast += ms == 11 ? 1 : 0;
    num_slow += ms == 33 ? 1 : 0;
  }
  EXPECT_GT(num_slow, 10);
  EXPECT_GT(num_fast, 10);
}

// Two frontends that never look send both of their requests to the first runner; those that know
// at once, to one each.
TEST(ClusterSimulationTest, FrontendsSeeOthersRequestsWhenTheyLook) {
  for (const double view_ms : {0.0, 1e6}) {
    SimClusterOptions options = TestCluster(8, PlacementKind::kMostIdle);
    options.num_frontends = 8;
    options.view_ms = view_ms;
    const SimWorkload workload =
        WorkloadOf(std::vector<SimRequest>(8, SimRequest{.output_tokens = 5}));
    int64_t most = 0;
    for (const SimRunnerFigures& one : RunOf(workload, options).runners) {
      most = std::max(most, one.requests);
    }
    if (view_ms == 0.0) {
      EXPECT_EQ(most, 1);
    } else {
      EXPECT_GT(most, 2);
    }
  }
}

// Runners for four each: Punica fills one after the other, and lets the ninth wait where there are
// two. The first begins alone: 11 ms, then 14 with three others, when it has ended. The step that
// follows has begun by then: 13 ms, and 11 for the ninth alone.
TEST(ClusterSimulationTest, PunicaFillsAndThenLetsWait) {
  std::vector<SimRequest> requests(9, SimRequest{.output_tokens = 2});
  const SimWorkload workload = WorkloadOf(std::move(requests));
  const SimResult result = RunOf(workload, TestCluster(3, PlacementKind::kPunica));
  EXPECT_EQ(result.waited_in_line, 0) << "a third runner is idle";
  const SimResult two = RunOf(workload, TestCluster(2, PlacementKind::kPunica));
  EXPECT_EQ(two.waited_in_line, 1);
  EXPECT_EQ(two.outcomes[8].first_ns, (11 + 14 + 13 + 11) * kMs);
  int64_t num_idle = 0;
  for (const SimRunnerFigures& one :
       RunOf(WorkloadOf(std::vector<SimRequest>(4)), TestCluster(3, PlacementKind::kPunica))
           .runners) {
    num_idle += one.requests == 0 ? 1 : 0;
  }
  EXPECT_EQ(num_idle, 2);
}

TEST(ClusterSimulationTest, WhatCanNeverRunIsRefused) {
  const SimWorkload workload = WorkloadOf({{.prompt_tokens = 600}, {.prompt_tokens = 6}});
  const SimResult result = RunOf(workload, TestCluster(1, PlacementKind::kMostIdle));
  EXPECT_TRUE(result.outcomes[0].is_refused);
  EXPECT_FALSE(result.outcomes[1].is_refused);
}

SimWorkloadOptions BusyWorkload(uint64_t seed) {
  SimWorkloadOptions options;
  options.num_requests = 300;
  options.num_adapters = 40;
  options.prompt_tokens = 30;
  options.output_tokens = 12;
  options.requests_per_second = 60;
  options.seed = seed;
  return options;
}

SimClusterOptions BusyCluster(PlacementKind kind) {
  SimClusterOptions options = TestCluster(4, kind);
  options.runner.limits.adapters_max = 6;
  options.runner.limits.num_pages = 96;  // so few that requests are preempted and adapters evicted
  options.runner.loader.host_adapters = 10;
  options.placement.seed = 3;
  return options;
}

void ExpectEachEndsOnce(const SimWorkload& workload, const SimResult& result) {
  int64_t num_tokens = 0, num_drawn = 0, num_placed = 0;
  for (size_t i = 0; i < workload.requests.size(); ++i) {
    const SimOutcome& outcome = result.outcomes[i];
    num_tokens += workload.requests[i].output_tokens;
    EXPECT_FALSE(outcome.is_refused);
    EXPECT_GT(outcome.first_ns, workload.requests[i].arrival_ns);
    EXPECT_GE(outcome.end_ns, outcome.first_ns);
  }
  for (const SimRunnerFigures& one : result.runners) {
    num_drawn += one.output_tokens;
    num_placed += one.requests;
  }
  EXPECT_EQ(num_drawn, num_tokens);
  EXPECT_EQ(num_placed, std::ssize(workload.requests)) << "one that is moved is no further one";
}

class EveryPlacement : public testing::TestWithParam<PlacementName> {};

// Every request ends once, with all its tokens, and the engines' books balance. What adapters'
// loads do to requests is the engine's, the same for all policies: they take turns at the ways.
TEST_P(EveryPlacement, EndsEveryRequest) {
  constexpr ColdStart kWays[] = {ColdStart::kJoinLater, ColdStart::kLayerwise, ColdStart::kAuto,
                                 ColdStart::kBlocking};
  SimWorkload workload = MakeSimWorkload(BusyWorkload(5), 512);
  workload.fetch_ms = {20, 60, 300};
  SimClusterOptions options = BusyCluster(GetParam().kind);
  options.runner.engine.scheduler.cold_start =
      kWays[static_cast<size_t>(GetParam().kind) % std::size(kWays)];
  ExpectEachEndsOnce(workload, RunOf(workload, options));
}

// Every request ends once where runners fail and frontends know late; a second run does the same.
TEST_P(EveryPlacement, EndsEveryRequestAmongFailuresTheSameWay) {
  std::string first;
  for (int run = 0; run < 2; ++run) {
    SimWorkload workload = MakeSimWorkload(BusyWorkload(9), 512);
    workload.fetch_ms = {20, 60, 300};
    SimClusterOptions options = BusyCluster(GetParam().kind);
    options.runner.engine.scheduler.cold_start = ColdStart::kAuto;
    options.num_frontends = 3;
    options.view_ms = 40;
    options.failures = {.every_seconds = 0.7, .down_seconds = 0.4, .slowness = 2.0};
    const SimResult result = RunOf(workload, options);
    EXPECT_GT(result.failures, 0);
    ExpectEachEndsOnce(workload, result);
    const std::string text = SimulationJson(workload, options, result).dump();
    if (run == 0) first = text;
    EXPECT_EQ(text, first);
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, EveryPlacement, testing::ValuesIn(kPlacementNames),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Three of four within the bound of 11.5 ms a token: first tokens 11 ms, then 11, 12 or 13 each.
TEST(SimulationJsonTest, SaysLatenciesAndWhoKeptToTheBound) {
  SimClusterOptions options = TestCluster(1, PlacementKind::kMostIdle);
  options.placement.slo_ms = 11.5;
  const SimWorkload workload = WorkloadOf({{.arrival_ns = 0, .output_tokens = 3},
                                           {.arrival_ns = 100 * kMs, .output_tokens = 2},
                                           {.arrival_ns = 200 * kMs, .output_tokens = 1},
                                           {.arrival_ns = 300 * kMs, .output_tokens = 2},
                                           {.arrival_ns = 300 * kMs, .output_tokens = 2}});
  const OrderedJson json = SimulationJson(workload, options, RunOf(workload, options));
  EXPECT_EQ(json["placement"], "most-idle");
  EXPECT_EQ(json["counted"], 5);
  EXPECT_DOUBLE_EQ(json["first_token_ms"]["p50"].get<double>(), 11.0);
  EXPECT_DOUBLE_EQ(json["first_token_ms"]["max"].get<double>(), 23.0);
  // The last two: one draws alone and then beside the other, which draws its second alone.
  EXPECT_DOUBLE_EQ(json["token_ms"]["max"].get<double>(), 12.0);
  EXPECT_DOUBLE_EQ(json["slo_attainment"].get<double>(), 0.75);
  options.warm_seconds = 0.15;
  EXPECT_EQ(SimulationJson(workload, options, RunOf(workload, options))["counted"], 3);
}

}  // namespace
}  // namespace graft
