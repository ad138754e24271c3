// A hill's rate climbs and falls as a triangle does.
#include "sim/simulated_workload.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(LoadHillTest, ItHasHalfOfWhatThePeakWouldBring) {
  EXPECT_EQ(RequestsOfHill(10.0, 100.0), 500);
}

// 800 requests in 80 s, 20 a second in the middle: a quarter of them in the first half of the way
// up, since a quarter of a triangle lies there.
TEST(LoadHillTest, TheRateIsATriangle) {
  std::vector<SimRequest> requests;
  for (int i = 0; i < 1000; ++i) requests.push_back({.arrival_ns = i * int64_t{1'000'000'000}});
  BendIntoHill(20.0, 80.0, &requests);
  ASSERT_EQ(requests.size(), 800u) << "what comes later is left out";
  const auto second = [&](size_t i) { return static_cast<double>(requests[i].arrival_ns) * 1e-9; };
  EXPECT_DOUBLE_EQ(second(0), 0.0);
  EXPECT_NEAR(second(100), 20.0, 1e-6);
  EXPECT_NEAR(second(400), 40.0, 1e-6);
  EXPECT_NEAR(second(700), 60.0, 1e-6);
  EXPECT_LT(second(799), 80.0);
  for (size_t i = 1; i < requests.size(); ++i) EXPECT_GE(second(i), second(i - 1)) << i;
  EXPECT_NEAR(second(410) - second(390), 1.0, 0.02) << "20 a second in the middle";
}

}  // namespace
}  // namespace graft
