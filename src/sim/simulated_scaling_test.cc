// Simulated fleets with runners that come and go: nothing is lost, and no more is paid for than is
// wanted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/cluster_simulation.h"
#include "sim/load_bound.h"
#include "sim/simulated_workload.h"

namespace graft {
namespace {

// Steps of 80 ms, 0.2 ms a token of a prompt. Runners for 8 requests, 5 s of start.
SimClusterOptions ScaledCluster(int32_t num_runners, PlacementKind placement) {
  SimClusterOptions options;
  options.num_runners = num_runners;
  CostModel& costs = options.runner.costs;
  costs.step_ms = 80;
  costs.step_ms_per_row = costs.step_ms_per_unit = costs.step_ms_per_context_token = 0;
  costs.step_ms_per_prompt_token = 0.2;
  options.runner.limits.sequences_max = 8;
  options.runner.limits.context_tokens_max = 512;
  options.runner.limits.num_pages = 1024;
  options.placement.kind = placement;
  options.placement.costs = costs;
  options.scaling.is_on = true;
  options.scaling.scale.startup_seconds = 5;
  return options;
}

SimWorkload Hill(double peak_requests_per_second, double seconds) {
  SimWorkloadOptions options;
  options.num_requests = RequestsOfHill(peak_requests_per_second, seconds);
  options.num_adapters = 20;
  options.requests_per_second = 1.0;
  options.prompt_tokens = 40;
  options.output_tokens = 25;  // 2 s
  SimWorkload workload = MakeSimWorkload(options, 512);
  BendIntoHill(peak_requests_per_second, seconds, &workload.requests);
  return workload;
}

void ExpectAllServed(const SimWorkload& workload, const SimResult& result) {
  int64_t drawn = 0, asked = 0;
  for (size_t i = 0; i < result.outcomes.size(); ++i) {
    EXPECT_FALSE(result.outcomes[i].is_refused) << i;
    EXPECT_GT(result.outcomes[i].first_ns, workload.requests[i].arrival_ns) << i;
    EXPECT_GE(result.outcomes[i].end_ns, result.outcomes[i].first_ns) << i;
    asked += workload.requests[i].output_tokens;
  }
  for (const SimRunnerFigures& one : result.runners) drawn += one.output_tokens;
  // A token that was drawn in the step in which its request was moved is drawn again.
  EXPECT_GE(drawn, asked);
  EXPECT_LE(drawn, asked + result.moves);
}

class SimulatedScalingTest : public testing::TestWithParam<PlacementKind> {};

TEST_P(SimulatedScalingTest, RunnersFollowAHill) {
  const SimWorkload workload = Hill(10.0, 120.0);
  const SimClusterOptions options = ScaledCluster(6, GetParam());
  const SimResult scaled = ClusterSimulation(workload, options).Run();
  ExpectAllServed(workload, scaled);
  EXPECT_GT(scaled.starts, 3);
  EXPECT_LE(scaled.paid_max, 6);
  SimClusterOptions always = options;
  always.scaling.is_on = false;
  const SimResult all = ClusterSimulation(workload, always).Run();
  EXPECT_DOUBLE_EQ(all.paid_seconds, 6 * static_cast<double>(all.end_ns) * 1e-9);
  EXPECT_LT(scaled.paid_seconds, 0.8 * all.paid_seconds);
  const double least = LeastRunnerSeconds(workload, all.outcomes, 8, 5);
  EXPECT_GT(scaled.paid_seconds, 0.8 * least);
  EXPECT_LT(scaled.paid_seconds, 1.6 * least);
}

INSTANTIATE_TEST_SUITE_P(Placements, SimulatedScalingTest,
                         testing::Values(PlacementKind::kPunica, PlacementKind::kAuto));

// One long answer on the second runner, which is not wanted any more: with consolidation the runner
// goes at once, without it when the answer ends.
TEST(SimulatedScalingTest, ARunnerThatIsEmptiedGoesEarlier) {
  SimWorkload workload;
  workload.adapters.ranks = {8};
  for (int i = 0; i < 40; ++i) workload.requests.push_back({.output_tokens = 50});
  // It comes when no other request is there, and still draws when the others are forgotten.
  for (int i = 0; i < 2; ++i) {
    workload.requests.push_back({.arrival_ns = 12'000'000'000, .output_tokens = 725});
  }
  workload.output_tokens_told = 725;
  SimClusterOptions options = ScaledCluster(4, PlacementKind::kMostIdle);
  options.runner.limits.context_tokens_max = 1024;
  options.runner.costs.step_ms = options.placement.costs.step_ms = 160;
  const SimResult emptied = ClusterSimulation(workload, options).Run();
  options.scaling.consolidates = false;
  const SimResult waited = ClusterSimulation(workload, options).Run();
  EXPECT_GT(emptied.moves, 0);
  EXPECT_EQ(waited.moves, 0);
  EXPECT_LT(emptied.paid_seconds, waited.paid_seconds);
}

TEST(SimulatedScalingTest, TheSameSeedGivesTheSameFleet) {
  const SimWorkload workload = Hill(5.0, 40.0);
  const SimClusterOptions options = ScaledCluster(4, PlacementKind::kPunica);
  const SimResult one = ClusterSimulation(workload, options).Run();
  const SimResult two = ClusterSimulation(workload, options).Run();
  EXPECT_EQ(one.paid_seconds, two.paid_seconds);
  EXPECT_EQ(one.moves, two.moves);
  EXPECT_EQ(one.end_ns, two.end_ns);
}

}  // namespace
}  // namespace graft
