#include "sim/slo.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(SloTest, AttainmentCountsFirstTokensInTime) {
  EXPECT_EQ(SloAttainment({}), 0.0);
  EXPECT_EQ(SloAttainment({10.0, 6000.0, 6000.1, kNeverMs}), 0.5);
  EXPECT_EQ(SloAttainment({10.0, 20.0}, 15.0), 0.5);
}

TEST(SloTest, SatisfactionFallsWithTheSquareOfTheWait) {
  EXPECT_EQ(UserSatisfaction({}), 0.0);
  EXPECT_EQ(UserSatisfaction({0.0}), 1.0);
  EXPECT_NEAR(UserSatisfaction({3000.0}), 0.75, 1e-12);
  EXPECT_EQ(UserSatisfaction({6000.0}), 0.0);
  EXPECT_NEAR(UserSatisfaction({0.0, kNeverMs}), 0.5, 1e-12);
}

}  // namespace
}  // namespace graft
