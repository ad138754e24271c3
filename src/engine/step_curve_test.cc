#include "engine/step_curve.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(StepCurveTest, JoinsItsClassesByLines) {
  StepCurve curve;
  EXPECT_EQ(curve.At(1000), 0.0) << "nothing is known";
  curve.Observe(1000, 3000);
  EXPECT_EQ(curve.num_known(), 1);
  EXPECT_DOUBLE_EQ(curve.At(500), 1500.0) << "in proportion";
  curve.Observe(2000, 5000);
  curve.Observe(4000, 7000);
  EXPECT_EQ(curve.num_known(), 3);
  EXPECT_EQ(curve.rows_most(), 4000);
  EXPECT_DOUBLE_EQ(curve.At(1500), 4000.0);
  EXPECT_DOUBLE_EQ(curve.At(3000), 6000.0);
  EXPECT_DOUBLE_EQ(curve.At(8000), 11000.0) << "by the last line";
  EXPECT_DOUBLE_EQ(curve.At(500), 2000.0) << "by the first line";
  EXPECT_DOUBLE_EQ(curve.At(0), 1000.0) << "what all sizes have";
}

TEST(StepCurveTest, FollowsTheLastSteps) {
  StepCurve curve;
  curve.Observe(1000, 1000);
  for (int step = 0; step < 16; ++step) curve.Observe(1000, 9000);
  EXPECT_NEAR(curve.At(1000), 9000.0, 100.0);
}

TEST(StepCurveTest, MoreRowsNeverTakeLess) {
  StepCurve curve;
  curve.Observe(1000, 5000);
  curve.Observe(2000, 3000);
  EXPECT_DOUBLE_EQ(curve.At(1500), 5000.0);
  EXPECT_DOUBLE_EQ(curve.At(2000), 5000.0);
  EXPECT_DOUBLE_EQ(curve.At(9000), 5000.0);
  curve.Observe(1000, -5);
  EXPECT_GE(curve.At(1), 0.0);
}

// 1,020 and 1,030 rows are of two classes, and what they differ by is chance.
TEST(StepCurveTest, NeighboursTellNoSlope) {
  StepCurve curve;
  curve.Observe(1020, 1020);
  curve.Observe(1030, 2060);
  EXPECT_DOUBLE_EQ(curve.At(10300), 20600.0);
  EXPECT_DOUBLE_EQ(curve.At(102), 102.0);
  curve.Observe(300, 800);
  EXPECT_DOUBLE_EQ(curve.At(2000), 2060.0 + 1260.0 / 730.0 * 970.0) << "by 300 and 1,030";
}

// Rows of long contexts, in steps that happened to be large: neither are small steps for nothing,
// nor are larger ones dearer yet.
TEST(StepCurveTest, LongContextsTellNoSlope) {
  StepCurve curve;
  curve.Observe(500, 500);
  curve.Observe(1000, 3000);
  EXPECT_DOUBLE_EQ(curve.At(100), 100.0);
  EXPECT_DOUBLE_EQ(curve.At(0), 0.0);
  EXPECT_DOUBLE_EQ(curve.At(4000), 12000.0);
}

TEST(StepCurveTest, AClassThatIsNotSeenAgainIsForgotten) {
  StepCurve curve;
  curve.Observe(4000, 1e9);
  for (int step = 1; step < StepCurve::kForgottenAfter; ++step) curve.Observe(1000, 1000);
  EXPECT_EQ(curve.num_known(), 2);
  curve.Observe(1000, 1000);
  EXPECT_EQ(curve.num_known(), 1);
  EXPECT_DOUBLE_EQ(curve.At(4000), 4000.0);
  EXPECT_EQ(curve.rows_most(), 4000);
}

}  // namespace
}  // namespace graft
