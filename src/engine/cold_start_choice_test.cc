#include "engine/cold_start_choice.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(CopyForecastTest, NothingIsKnownBeforeACopyHasEnded) {
  CopyForecast forecast;
  forecast.Ordered(3, 1000, 4, 0);
  EXPECT_FALSE(forecast.Of(3, 0).has_value());
  forecast.Ended(3, 0, 50);  // it came to nothing
  forecast.Ordered(4, 1000, 4, 60);
  EXPECT_FALSE(forecast.Of(4, 60).has_value());
  forecast.Ended(4, 500, 600);
  EXPECT_FALSE(forecast.Of(4, 600).has_value()) << "it is there";
}

TEST(CopyForecastTest, CopiesComeOneAfterTheOther) {
  CopyForecast forecast;
  forecast.Ordered(0, 1000, 4, 0);
  forecast.Ended(0, 2000, 2100);
  forecast.Ordered(1, 3000, 4, 10000);
  forecast.Ordered(2, 500, 7, 11000);
  // The first began at 10,000 and takes 6,000.
  EXPECT_EQ(forecast.Of(1, 12000)->ahead_ns, 0.0);
  EXPECT_DOUBLE_EQ(forecast.Of(1, 12000)->own_ns, 4000.0);
  EXPECT_DOUBLE_EQ(forecast.Of(2, 12000)->ahead_ns, 4000.0);
  EXPECT_DOUBLE_EQ(forecast.Of(2, 12000)->own_ns, 1000.0);
  EXPECT_EQ(forecast.Of(2, 12000)->num_layers, 7);
  // Late: it may end at any time, what stands behind it has all its copy before it.
  EXPECT_EQ(forecast.Of(1, 20000)->own_ns, 0.0);
  EXPECT_EQ(forecast.Of(2, 20000)->ahead_ns, 0.0);
  EXPECT_DOUBLE_EQ(forecast.Of(2, 20000)->own_ns, 1000.0);
  forecast.Ended(1, 6000, 21000);
  EXPECT_DOUBLE_EQ(forecast.Of(2, 21500)->own_ns, 500.0) << "it began when the other ended";
}

TEST(CopyForecastTest, FollowsWhatCopiesTakeOfLate) {
  CopyForecast forecast;
  for (int32_t i = 0; i < 500; ++i) {
    forecast.Ordered(0, 100, 1, 0);
    forecast.Ended(0, i < 100 ? 100 : 300, 0);
  }
  forecast.Ordered(0, 1000, 1, 0);
  EXPECT_NEAR(forecast.Of(0, 0)->own_ns, 3000.0, 30.0);
}

TEST(StepCostTest, IsALineOverTheRows) {
  StepCost cost;
  EXPECT_FALSE(cost.is_known());
  for (int64_t rows = 1; rows <= 100; ++rows) cost.Observe(rows % 37, 7000 + 20 * (rows % 37));
  EXPECT_NEAR(cost.At(10), 7200.0, 1e-3);
  EXPECT_NEAR(cost.At(512), 17240.0, 1e-1);
}

TEST(StepCostTest, OfStepsThatWereAllAlikeNothingElseIsKnown) {
  StepCost cost;
  for (int i = 0; i < 50; ++i) cost.Observe(32, 7000);
  EXPECT_NEAR(cost.At(32), 7000.0, 1e-6);
  EXPECT_NEAR(cost.At(160), 7000.0, 1e-6);
}

TEST(StepCostTest, IsNeverNegative) {
  StepCost cost;
  cost.Observe(10, 5000);
  cost.Observe(20, 1000);  // more rows in less time
  EXPECT_GT(cost.At(500), 0.0);
  StepCost steep;
  steep.Observe(10, 10);
  steep.Observe(20, 4000);
  EXPECT_GE(steep.At(1), 0.0);
}

// 7 ms and 20 us per row.
class BeginsNowTest : public testing::Test {
 protected:
  BeginsNowTest() {
    for (int64_t rows = 1; rows < 200; ++rows) steps_.Observe(rows, 7 * kMs + rows * 20'000);
  }
  ColdStartCase Case(int32_t num_others, int64_t rows_joining, double copy_ms) const {
    ColdStartCase step;
    step.arrival = {.ahead_ns = 0.0, .own_ns = copy_ms * kMs, .num_layers = 32};
    step.num_rows = num_others;
    step.num_others = num_others;
    step.num_rows_joining = rows_joining;
    return step;
  }
  StepCost steps_;
};

TEST_F(BeginsNowTest, AloneAlways) {
  for (const double copy_ms : {0.1, 6.0, 600.0})
    EXPECT_TRUE(BeginsNow(Case(0, 10, copy_ms), steps_));
}

TEST_F(BeginsNowTest, AStepThatHidesTheCopyWaitsForItsFirstLayerAlone) {
  EXPECT_NEAR(StallWith(Case(8, 128, 6.4), steps_), 0.2 * kMs, 1.0);
  EXPECT_TRUE(BeginsNow(Case(8, 128, 6.4), steps_));
}

TEST_F(BeginsNowTest, ALongCopyHoldsUpOthersForTooLong) {
  // 64 ms beside a step of 9.7: all but its last layer's share would be waited for.
  const ColdStartCase step = Case(8, 128, 64.0);
  EXPECT_NEAR(StallWith(step, steps_), 64 * kMs - (7 * kMs + 136 * 20'000) * 31.0 / 32, 1.0);
  EXPECT_FALSE(BeginsNow(step, steps_));
}

TEST_F(BeginsNowTest, ManyOthersOutweighOne) {
  EXPECT_TRUE(BeginsNow(Case(16, 128, 6.4), steps_));
  EXPECT_FALSE(BeginsNow(Case(200, 128, 6.4), steps_));
}

TEST_F(BeginsNowTest, WhatStandsInLineAheadIsWaitedForToo) {
  ColdStartCase step = Case(8, 128, 6.4);
  step.arrival.ahead_ns = 30 * kMs;
  EXPECT_FALSE(BeginsNow(step, steps_));
}

TEST_F(BeginsNowTest, WhoeverWaitsAlreadyLosesNothing) {
  ColdStartCase step = Case(200, 128, 6.4);
  step.stall_ns = 0.3 * kMs;
  EXPECT_TRUE(BeginsNow(step, steps_));
  EXPECT_EQ(StallWith(step, steps_), 0.3 * kMs);
}

}  // namespace
}  // namespace graft
