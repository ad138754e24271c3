#include "engine/step_demand.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(StepDemandTest, PromptsEndBehindEachOther) {
  StepDemand demand;
  demand.AddPrompts(1, 100, 7);
  demand.AddPrompts(2, 50, 9);
  ASSERT_EQ(demand.prompts().size(), 3u);
  EXPECT_EQ(demand.prompts()[0].rows_end, 100.0);
  EXPECT_EQ(demand.prompts()[1].rows_end, 150.0);
  EXPECT_EQ(demand.prompts()[2].rows_end, 200.0);
  EXPECT_EQ(demand.prompts()[2].tokens, 9.0);
  EXPECT_EQ(demand.num_rows(), 200.0);
  EXPECT_EQ(demand.num_prompts(), 3.0);
  demand.Clear();
  EXPECT_TRUE(demand.prompts().empty());
  EXPECT_EQ(demand.num_rows(), 0.0);
}

TEST(StepDemandTest, StreamsOfLikeLengthsAreOne) {
  StepDemand demand;
  for (const double tokens : {4.0, 6.0, 1.0, 1e12}) demand.AddStream(tokens);
  EXPECT_EQ(demand.num_streams(), 4.0);
  EXPECT_EQ(demand.streams()[2].num, 2.0);
  EXPECT_EQ(demand.streams()[2].tokens, 5.0);
  EXPECT_EQ(demand.streams()[0].num, 1.0);
}

// Whatever their number, the summary is bounded, and its sums are right.
TEST(StepDemandTest, ManyPromptsAreSummedUp) {
  StepDemand demand;
  double ends = 0.0, rows = 0.0;
  for (int i = 1; i <= 1000; ++i) {
    demand.AddPrompts(1, i, i);
    rows += i;
    ends += rows;
  }
  demand.AddPrompts(500, 10, 3);
  for (int i = 0; i < 500; ++i) {
    rows += 10;
    ends += rows;
  }
  EXPECT_LE(demand.prompts().size(), StepDemand::kPromptsMax);
  EXPECT_DOUBLE_EQ(demand.num_rows(), rows);
  EXPECT_DOUBLE_EQ(demand.num_prompts(), 1500.0);
  double num = 0.0, sum = 0.0, tokens = 0.0, before = 0.0, of_all = 0.0;
  for (const StepDemand::Prompts& one : demand.prompts()) {
    EXPECT_GT(one.rows_end, before);
    before = one.rows_end;
    num += one.num;
    of_all += one.rows;
    sum += one.num * one.rows_end;
    tokens += one.num * one.tokens;
  }
  EXPECT_NEAR(num, 1500.0, 1e-6);
  EXPECT_DOUBLE_EQ(of_all, rows);
  EXPECT_NEAR(sum / ends, 1.0, 1e-9);
  EXPECT_NEAR(tokens, 1000.0 * 1001.0 / 2.0 + 1500.0, 1e-3);
}

}  // namespace
}  // namespace graft
