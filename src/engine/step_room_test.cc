#include "engine/step_room.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

constexpr int32_t kAll = 100'000;  // the rows of a step

class StepRoomTest : public testing::Test {
 protected:
  StepCost cost_;
  StepRoom room_{cost_};
  const int a_ = 0, b_ = 0, c_ = 0;  // tenants
};

TEST_F(StepRoomTest, ATenantAloneHasAll) {
  room_.Begin(8, kAll);
  EXPECT_EQ(room_.RowsFor(&a_, 8, 1.0), kAll);
  room_.Add(&a_, 28, 1.0, 20, true);
  EXPECT_EQ(room_.RowsFor(&a_, 28, 1.0), kAll - 20);
}

TEST_F(StepRoomTest, LongPromptsBeforeOthersHaveAll) {
  room_.Begin(0, kAll);
  room_.Add(&a_, 100, 1.0, 100, false);
  EXPECT_EQ(room_.RowsFor(&b_, 0, 1.0), kAll - 100);
}

TEST_F(StepRoomTest, BesideAFirstTokenOthersLengthenTheStepByHalf) {
  room_.Begin(8, kAll);                        // of a
  room_.Add(&b_, 32, 1.0, 32, true);           // b's prompt ends
  EXPECT_EQ(room_.RowsFor(&a_, 8, 1.0), 24);   // as many as b has
  EXPECT_EQ(room_.RowsFor(&a_, 30, 1.0), 20);  // half of 40
  room_.Add(&a_, 42, 1.0, 12, false);
  EXPECT_EQ(room_.RowsFor(&a_, 42, 1.0), 8);
  room_.Add(&a_, 50, 1.0, 8, false);
  EXPECT_EQ(room_.RowsFor(&a_, 50, 1.0), 0);
}

TEST_F(StepRoomTest, NoTenantHasMoreThanTheStepHasLeft) {
  room_.Begin(8, 50);
  room_.Add(&b_, 32, 1.0, 32, true);
  EXPECT_EQ(room_.rows_left(), 18);
  EXPECT_EQ(room_.num_rows(), 40);
  EXPECT_EQ(room_.RowsFor(&a_, 8, 1.0), 18) << "of the 24 that would be its share";
}

TEST_F(StepRoomTest, ManyShortPromptsOfManyTenantsShareAStep) {
  const std::vector<int> tenants(100);
  room_.Begin(0, kAll);
  for (const int& tenant : tenants) {
    EXPECT_GE(room_.RowsFor(&tenant, 0, 1.0), 100);
    room_.Add(&tenant, 100, 1.0, 100, true);
  }
}

TEST_F(StepRoomTest, TheLargestOfTheOthersCounts) {
  room_.Begin(0, kAll);
  room_.Add(&a_, 10, 1.0, 10, true);
  room_.Add(&b_, 60, 1.0, 60, true);
  EXPECT_EQ(room_.RowsFor(&c_, 0, 1.0), 60);
  EXPECT_EQ(room_.RowsFor(&b_, 60, 1.0), 0);  // a has 10, and the step is long enough
  EXPECT_EQ(room_.RowsFor(&a_, 10, 1.0), 50);
  EXPECT_EQ(room_.RowsFor(&a_, 10, 2.0), 110);
}

TEST_F(StepRoomTest, WhereRowsAreCheapHalfAStepIsManyOfThem) {
  for (const int64_t rows : {10, 1000, 10, 1000}) cost_.Observe(rows, 10'000'000 + rows * 10'000);
  room_.Begin(10, kAll);
  room_.Add(&b_, 20, 1.0, 20, true);
  // 30 rows take 10.3 ms, and 515 more take half of that.
  EXPECT_NEAR(room_.RowsFor(&a_, 1000, 1.0), 515, 2);
}

}  // namespace
}  // namespace graft
