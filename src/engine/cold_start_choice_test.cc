#include "engine/cold_start_choice.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

constexpr int64_t kMs = 1'000'000;

CopySize Size(int64_t bytes, int32_t num_layers) { return {bytes, 8, num_layers}; }

TEST(CopyForecastTest, NothingIsKnownBeforeACopyHasEnded) {
  CopyForecast forecast(1);
  forecast.Ordered(3, Size(1000, 4), 0);
  EXPECT_FALSE(forecast.Of(3, 0).has_value());
  forecast.Ended(3, 0, 50);  // the copy failed: nothing was learned
  forecast.Ordered(4, Size(1000, 4), 60);
  EXPECT_FALSE(forecast.Of(4, 60).has_value());
  forecast.Ended(4, 500, 600);
  EXPECT_FALSE(forecast.Of(4, 600).has_value()) << "it is there";
}

TEST(CopyForecastTest, CopiesComeOneAfterTheOther) {
  CopyForecast forecast(1);
  forecast.Ordered(0, Size(1000, 4), 0);
  forecast.Ended(0, 2000, 2100);
  forecast.Ordered(1, Size(3000, 4), 10000);
  forecast.Ordered(2, Size(500, 7), 11000);
  // The first copy began at 10,000 ns and takes 6,000.
  EXPECT_EQ(forecast.Of(1, 12000)->ahead_ns, 0.0);
  EXPECT_DOUBLE_EQ(forecast.Of(1, 12000)->own_ns, 4000.0);
  EXPECT_DOUBLE_EQ(forecast.Of(2, 12000)->ahead_ns, 4000.0);
  EXPECT_DOUBLE_EQ(forecast.Of(2, 12000)->own_ns, 1000.0);
  EXPECT_EQ(forecast.Of(2, 12000)->size.num_layers, 7);
  // The first copy is late and may end at any time. The one behind it has yet to be copied whole.
  EXPECT_EQ(forecast.Of(1, 20000)->own_ns, 0.0);
  EXPECT_EQ(forecast.Of(2, 20000)->ahead_ns, 0.0);
  EXPECT_DOUBLE_EQ(forecast.Of(2, 20000)->own_ns, 1000.0);
  forecast.Ended(1, 6000, 21000);
  EXPECT_DOUBLE_EQ(forecast.Of(2, 21500)->own_ns, 500.0) << "it began when the other ended";
}

TEST(CopyForecastTest, TheFirstFewShareTheBus) {
  CopyForecast forecast(2);
  forecast.Ordered(0, Size(1000, 4), 0);
  forecast.Ended(0, 2000, 2000);  // 2 ns a byte
  forecast.Ordered(1, Size(3000, 4), 10000);
  forecast.Ordered(2, Size(500, 7), 12000);  // the first has 2,000 bytes left
  forecast.Ordered(3, Size(1000, 4), 12000);
  EXPECT_EQ(forecast.Of(2, 12000)->ahead_ns, 0.0);
  EXPECT_DOUBLE_EQ(forecast.Of(2, 12000)->own_ns, 2000.0) << "at half the pace";
  EXPECT_DOUBLE_EQ(forecast.Of(3, 12000)->ahead_ns, 2000.0);
  EXPECT_DOUBLE_EQ(forecast.Of(3, 12000)->own_ns, 4000.0);
  EXPECT_DOUBLE_EQ(forecast.Of(1, 12000)->own_ns, 7000.0) << "with 500 and 1,000 of the others";
  // 500 ns later each has advanced by 250 bytes: half of the second copy is there.
  EXPECT_DOUBLE_EQ(forecast.Of(2, 13000)->own_ns, 1000.0);
  EXPECT_DOUBLE_EQ(forecast.Of(1, 13000)->own_ns, 6000.0);
  // The second copy is late, so the third has not begun.
  EXPECT_EQ(forecast.Of(2, 15000)->own_ns, 0.0);
  EXPECT_EQ(forecast.Of(3, 15000)->ahead_ns, 0.0);
  forecast.Ended(2, 1000, 15000);
  EXPECT_DOUBLE_EQ(forecast.Of(3, 15500)->own_ns, 3500.0) << "beside the first's 875 bytes";
  forecast.Ended(1, 6000, 16000);
  EXPECT_DOUBLE_EQ(forecast.Of(3, 16000)->own_ns, 1500.0) << "250 bytes came while it shared";
}

// A cold burst: every request of a plan orders its adapter's copy and asks when the copy comes. The
// next plan asks again.
TEST(CopyForecastTest, ABurstLooksAtEachOfTheLineAFewTimes) {
  constexpr int32_t kLine = 1024;
  CopyForecast forecast(3);
  forecast.Ordered(kLine, Size(1000, 4), 0);
  forecast.Ended(kLine, 2000, 2000);  // 2 ns a byte
  for (int32_t i = 0; i < kLine; ++i) {
    forecast.Ordered(i, Size(1000, 4), 2000);
    // The first three begin at once; the others follow three at a time.
    EXPECT_NEAR(forecast.Of(i, 2000)->ahead_ns, i / 3 * 6000.0, 1e-3 * (i + 1));
  }
  EXPECT_LT(forecast.num_visits(), 30 * kLine);
  const int64_t before = forecast.num_visits();
  double last_ns = 0.0;
  for (int32_t i = 0; i < kLine; ++i) {
    const ArrivalForecast arrival = *forecast.Of(i, 5000);
    EXPECT_GE(arrival.ahead_ns + arrival.own_ns, last_ns);
    last_ns = arrival.ahead_ns + arrival.own_ns;
  }
  EXPECT_NEAR(last_ns, kLine * 2000.0 - 3000.0, 1.0) << "the bus is never idle";
  EXPECT_LT(forecast.num_visits() - before, 10 * kLine);
}

// The forecast after each order is that of the whole line at once.
TEST(CopyForecastTest, OrdersOneByOneAreForeseenAsTheWholeLineIs) {
  CopyForecast grown(3);
  CopyForecast whole(3);
  for (CopyForecast* const forecast : {&grown, &whole}) {
    forecast->Ordered(99, Size(1000, 4), 0);
    forecast->Ended(99, 2000, 0);
  }
  ASSERT_FALSE(grown.Of(0, 0).has_value());
  for (int32_t i = 0; i < 40; ++i) {
    const CopySize size = Size(100 + i * 7919 % 3001, 4);
    grown.Ordered(i, size, 0);
    whole.Ordered(i, size, 0);
    ASSERT_TRUE(grown.Of(i, 0).has_value());
  }
  for (const int64_t now_ns : {0, 1500, 100'000'000}) {
    for (int32_t i = 0; i < 40; ++i) {
      EXPECT_DOUBLE_EQ(grown.Of(i, now_ns)->ahead_ns, whole.Of(i, now_ns)->ahead_ns);
      EXPECT_DOUBLE_EQ(grown.Of(i, now_ns)->own_ns, whole.Of(i, now_ns)->own_ns);
    }
  }
}

TEST(CopyForecastTest, FollowsWhatCopiesTakeOfLate) {
  CopyForecast forecast(1);
  for (int32_t i = 0; i < 500; ++i) {
    forecast.Ordered(0, Size(100, 1), 0);
    forecast.Ended(0, i < 100 ? 100 : 300, 0);
  }
  forecast.Ordered(0, Size(1000, 1), 0);
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
  cost.Observe(20, 1000);  // more rows in less time, which cannot be
  EXPECT_GT(cost.At(500), 0.0);
  StepCost steep;
  steep.Observe(10, 10);
  steep.Observe(20, 4000);
  EXPECT_GE(steep.At(1), 0.0);
}

// A step takes 7 ms and 20 us per row.
class BeginsNowTest : public testing::Test {
 protected:
  BeginsNowTest() {
    for (int64_t rows = 1; rows < 200; ++rows) {
      costs_.steps.Observe(rows, 7 * kMs + rows * 20'000);
    }
  }
  ColdStartCase Case(int32_t num_others, int64_t rows_joining, double copy_ms) const {
    ColdStartCase step;
    step.arrival = {0.0, copy_ms * kMs, {32 * kLayerBytes, 64, 32}};
    step.num_rows = num_others;
    step.num_others = num_others;
    step.num_rows_joining = rows_joining;
    return step;
  }
  // A worker needs read_us to read one layer of Case's adapter, and row_us for each row.
  void SetWorkers(int32_t num_workers, double read_us, double row_us) {
    const double byte_ns = 1e3 / kLayerBytes;
    costs_.bridge =
        BridgePace({{{8, 1e3, 1e3}, {64, read_us * byte_ns, row_us * byte_ns}}, num_workers});
  }

  static constexpr int64_t kLayerBytes = 1 << 23;
  ColdStartCosts costs_;
};

TEST_F(BeginsNowTest, AloneAlways) {
  for (const double copy_ms : {0.1, 6.0, 600.0})
    EXPECT_TRUE(BeginsNow(Case(0, 10, copy_ms), costs_));
}

TEST_F(BeginsNowTest, AStepThatHidesTheCopyWaitsForItsFirstLayerAlone) {
  EXPECT_NEAR(StallWith(Case(8, 128, 6.4), costs_).least_ns(), 0.2 * kMs, 1.0);
  EXPECT_TRUE(BeginsNow(Case(8, 128, 6.4), costs_));
}

TEST_F(BeginsNowTest, ALongCopyHoldsUpOthersForTooLong) {
  // 64 ms beside a step of 9.7 ms: others would wait for all but the last layer's share of it.
  const ColdStartCase step = Case(8, 128, 64.0);
  EXPECT_NEAR(StallWith(step, costs_).least_ns(), 64 * kMs - (7 * kMs + 136 * 20'000) * 31.0 / 32,
              1.0);
  EXPECT_FALSE(BeginsNow(step, costs_));
}

TEST_F(BeginsNowTest, ManyOthersOutweighOne) {
  EXPECT_TRUE(BeginsNow(Case(16, 128, 6.4), costs_));
  EXPECT_FALSE(BeginsNow(Case(200, 128, 6.4), costs_));
}

TEST_F(BeginsNowTest, WhatStandsInLineAheadIsWaitedForToo) {
  ColdStartCase step = Case(8, 128, 6.4);
  step.arrival.ahead_ns = 30 * kMs;
  EXPECT_FALSE(BeginsNow(step, costs_));
}

TEST_F(BeginsNowTest, WhoeverWaitsAlreadyLosesNothing) {
  ColdStartCase step = Case(200, 128, 6.4);
  step.stall.wait_ns = step.stall.bridge_ns = 0.3 * kMs;
  EXPECT_TRUE(BeginsNow(step, costs_));
  EXPECT_EQ(StallWith(step, costs_).least_ns(), 0.3 * kMs);
}

TEST_F(BeginsNowTest, WithoutWorkersNobodyIsBridged) {
  for (const double copy_ms : {0.0, 6.4, 640.0}) {
    const ArrivalStall stall = StallWith(Case(8, 16, copy_ms), costs_);
    EXPECT_FALSE(stall.bridges());
    EXPECT_EQ(stall.bridge_ns, stall.wait_ns);
  }
}

// A layer is copied in 2 ms, so a step meets no layer that has arrived.
TEST_F(BeginsNowTest, TheCpuIsTakenWhereItComputesALayerFasterThanTheLinkCopiesIt) {
  SetWorkers(1, 100.0, 10.0);  // 16 rows in 0.26 ms, 128 in 1.38, 256 in 2.66
  const ArrivalStall few = StallWith(Case(8, 16, 64.0), costs_);
  EXPECT_TRUE(few.bridges());
  // A layer's turn comes every 0.234 + 0.26 ms, before its copy: the CPU computes all layers.
  EXPECT_NEAR(few.bridge_ns, 32 * 260e3, 1.0);
  EXPECT_TRUE(StallWith(Case(8, 128, 64.0), costs_).bridges());
  EXPECT_FALSE(StallWith(Case(8, 256, 64.0), costs_).bridges()) << "slower than the link";
  EXPECT_TRUE(BeginsNow(Case(4, 16, 64.0), costs_));
  costs_.bridge = BridgePace();
  EXPECT_FALSE(BeginsNow(Case(4, 16, 64.0), costs_)) << "others would wait for 57 ms";
}

TEST_F(BeginsNowTest, TheCpuComputesUntilTheCopyIsAhead) {
  SetWorkers(1, 100.0, 0.0);
  // A copy takes 0.2 ms a layer, a computed layer 0.234 + 0.1 ms: the CPU has the first two layers.
  EXPECT_NEAR(StallWith(Case(8, 16, 6.4), costs_).bridge_ns, 2 * 100e3, 1.0);
  ColdStartCase in_line = Case(8, 16, 6.4);
  in_line.arrival.ahead_ns = 0.6 * kMs;  // 0.8 until the first layer; each gains 0.134
  EXPECT_NEAR(StallWith(in_line, costs_).bridge_ns, 6 * 100e3, 1.0);
}

TEST_F(BeginsNowTest, ATieTakesNoCores) {
  SetWorkers(1, 200.0, 0.0);
  ColdStartCase step = Case(0, 1, 6.4);
  // The first layer's copy takes as long as computing it. After that the copy is ahead.
  const ArrivalStall stall = StallWith(step, costs_);
  EXPECT_DOUBLE_EQ(stall.wait_ns, stall.bridge_ns);
  EXPECT_FALSE(stall.bridges());
  step.arrival.ahead_ns = 1.0;
  EXPECT_TRUE(StallWith(step, costs_).bridges());
}

TEST_F(BeginsNowTest, MoreWorkersAreWorthAsMuchAsTheirRows) {
  SetWorkers(4, 100.0, 10.0);  // ten rows cost as much as another worker does
  EXPECT_NEAR(StallWith(Case(8, 15, 64.0), costs_).bridge_ns, 32 * 250e3, 1.0);
  EXPECT_NEAR(StallWith(Case(8, 20, 64.0), costs_).bridge_ns, 32 * 200e3, 1.0);
  EXPECT_NEAR(StallWith(Case(8, 160, 64.0), costs_).bridge_ns, 32 * 500e3, 1.0);
}

TEST_F(BeginsNowTest, WhatElseArrivesIsTheCpusToo) {
  SetWorkers(1, 100.0, 10.0);
  ColdStartCase step = Case(8, 16, 64.0);
  step.stall = StallWith(step, costs_);
  step.num_rows += 16;
  step.is_adapter_named = true;  // the adapter is read once for both
  EXPECT_NEAR(StallWith(step, costs_).bridge_ns, 32 * 420e3, 1.0);
  step.is_adapter_named = false;
  step.arrival.ahead_ns = 64.0 * kMs;
  EXPECT_NEAR(StallWith(step, costs_).bridge_ns, 32 * 520e3, 1.0);
  EXPECT_EQ(StallWith(step, costs_).last.ahead_ns, 64.0 * kMs);
}

TEST_F(BeginsNowTest, TheCpuIsBelievedByWhatItReallyTook) {
  SetWorkers(1, 100.0, 10.0);
  const ColdStartCase step = Case(8, 128, 64.0);
  const ArrivalStall stall = StallWith(step, costs_);
  ASSERT_TRUE(stall.bridges());
  costs_.bridge.Observe(stall.work, 0, 9e9);  // no layer was assisted, so nothing is learned
  EXPECT_TRUE(StallWith(step, costs_).bridges());
  for (int i = 0; i < 20; ++i) costs_.bridge.Observe(stall.work, 32, 32 * 1380e3 * 3);
  EXPECT_FALSE(StallWith(step, costs_).bridges()) << "thrice as slow";
  EXPECT_NEAR(costs_.bridge.LayerNs(stall.work), 3 * 1380e3, 0.2 * 1380e3);
  for (int i = 0; i < 200; ++i) costs_.bridge.Forget();
  EXPECT_TRUE(StallWith(step, costs_).bridges()) << "it is given another chance";
  for (int i = 0; i < 200; ++i) costs_.bridge.Observe(stall.work, 32, -5.0);
  EXPECT_GE(costs_.bridge.LayerNs(stall.work), 0.0);
  EXPECT_TRUE(StallWith(Case(8, 256, 64.0), costs_).bridges()) << "all of it beside the product";
}

}  // namespace
}  // namespace graft
