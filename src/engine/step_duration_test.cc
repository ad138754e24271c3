#include "engine/step_duration.h"

#include <gtest/gtest.h>

namespace graft {
namespace step_duration_test {

constexpr int64_t kMs = 1'000'000;

StepPlan PlanOf(size_t sequences, size_t rows) {
  StepPlan plan;
  plan.sequences.resize(sequences);
  plan.tokens.resize(rows);
  return plan;
}

class StepDurationTest : public testing::Test {
 protected:
  void Learn(size_t rows, int64_t ns) { duration_.Learn(PlanOf(4, rows), ns); }
  int64_t Expect(size_t rows) const { return duration_.Expect(PlanOf(4, rows)); }
  StepDuration duration_;
};

TEST_F(StepDurationTest, WhatWasNeverSeenIsUnknown) {
  EXPECT_EQ(Expect(4), -1);
  Learn(104, 20 * kMs);  // teaches nothing before a step without a prompt was seen
  EXPECT_EQ(Expect(104), -1);
  Learn(4, 7 * kMs);
  EXPECT_EQ(Expect(4), 7 * kMs);
  EXPECT_EQ(Expect(104), -1);
}

TEST_F(StepDurationTest, RowsOfPromptsCostTheLeastThatTheyDidOfLate) {
  Learn(4, 7 * kMs);
  Learn(14, 9 * kMs);  // 0.2 ms a row
  EXPECT_EQ(Expect(24), 11 * kMs);
  Learn(104, 9 * kMs);  // 0.02
  EXPECT_EQ(Expect(24), 7 * kMs + 20 * 20'000);
  Learn(14, 9 * kMs);  // dearer rows count only gradually
  EXPECT_EQ(Expect(24), 7 * kMs + 20 * (20'000 + 2'500 + 1'000));
  Learn(4, 6 * kMs);
  EXPECT_EQ(Expect(24), 6 * kMs + 20 * 23'500);
}

// Such a step follows one of longer contexts, or one that waited.
TEST_F(StepDurationTest, AStepShorterThanDecodingTeachesNothing) {
  Learn(4, 7 * kMs);
  Learn(104, 9 * kMs);
  Learn(4, 12 * kMs);
  Learn(14, 8 * kMs);
  Learn(14, 12 * kMs);
  EXPECT_EQ(Expect(104), 12 * kMs + 100 * 20'000);
}

}  // namespace step_duration_test
}  // namespace graft
