#include "sim/load_bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace graft {
namespace {

using testing::ElementsAre;

std::vector<SimRequest> RequestsFor(const std::vector<int32_t>& adapters) {
  std::vector<SimRequest> requests;
  for (const int32_t adapter : adapters) {
    requests.push_back({.arrival_ns = std::ssize(requests) * 1'000'000'000, .adapter = adapter});
  }
  return requests;
}

TEST(LoadBoundTest, KeepsWhatIsAskedForSoonest) {
  // The third takes the place of 1, which is asked for after 0, or none at all.
  EXPECT_THAT(FewestLoads(RequestsFor({0, 1, 2, 0, 1}), 2),
              ElementsAre(true, true, true, false, false));
  EXPECT_THAT(FewestLoads(RequestsFor({0, 1, 2, 0, 2, 1}), 2),
              ElementsAre(true, true, true, false, false, true));
  EXPECT_THAT(FewestLoads(RequestsFor({0, 0, kBaseModel, 1, 0}), 1),
              ElementsAre(true, false, false, true, false));
  EXPECT_THAT(FewestLoads(RequestsFor({0, 1, 0, 1}), 2), ElementsAre(true, true, false, false));
}

// Two of four requests load, after the warm time one of two: the slowest 1 % of requests are the
// slowest 2 % of loads.
TEST(LoadBoundTest, SaysHowLongTheSlowestWait) {
  SimWorkload workload;
  workload.requests = RequestsFor({0, 0, 1, 0});
  for (int i = 1; i <= 1000; ++i) workload.fetch_ms.push_back(i);
  SimClusterOptions options;
  options.num_runners = 1;
  options.runner.limits.adapters_max = 2;
  EXPECT_EQ(LoadBoundOf(workload, options).loads_a_request, 0.0) << "fetches take no time";
  options.runner.loader.host_adapters = 2;
  EXPECT_DOUBLE_EQ(LoadBoundOf(workload, options).loads_a_request, 0.5);
  EXPECT_EQ(LoadBoundOf(workload, options).first_token_p99_ms, 980.0);
  options.warm_seconds = 2.5;
  EXPECT_EQ(LoadBoundOf(workload, options).loads_a_request, 0.0);
  EXPECT_EQ(LoadBoundOf(workload, options).first_token_p99_ms, 0.0);
}

// A device that holds what the host's memory has let go has each place beside the host's.
TEST(LoadBoundTest, PlacesOfDevicesAndOfHostsAddUp) {
  SimWorkload workload;
  workload.requests = RequestsFor({0, 1, 2, 3, 0, 1, 2, 3});
  workload.fetch_ms = {10};
  SimClusterOptions options;
  options.num_runners = 1;
  options.runner.limits.adapters_max = 2;
  options.runner.loader.host_adapters = 2;
  EXPECT_DOUBLE_EQ(LoadBoundOf(workload, options).loads_a_request, 0.5);
}

}  // namespace
}  // namespace graft
