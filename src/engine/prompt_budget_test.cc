#include "engine/prompt_budget.h"

#include <gtest/gtest.h>

namespace graft {
namespace prompt_budget_test {

constexpr int64_t kMs = 1'000'000;

class PromptBudgetTest : public testing::Test {
 protected:
  // A step of four sequences.
  void Learn(size_t rows, int64_t ns) {
    StepPlan plan;
    plan.sequences.resize(4);
    plan.tokens.resize(rows);
    budget_.Learn(plan, ns);
  }
  PromptBudget budget_{50 * kMs};
};

TEST_F(PromptBudgetTest, FillsWhatDecodingLeavesOfTheBound) {
  EXPECT_EQ(budget_.RowsMax(), PromptBudget::kRowsFirst);
  Learn(4, 10 * kMs);
  EXPECT_EQ(budget_.RowsMax(), PromptBudget::kRowsFirst);
  Learn(4 + 1000, 30 * kMs);  // 20 us a row
  EXPECT_EQ(budget_.RowsMax(), 1999);
  Learn(4, 30 * kMs);
  EXPECT_EQ(budget_.RowsMax(), 999);
}

TEST_F(PromptBudgetTest, DearRowsCountAtOnceAndAreForgottenByAndBy) {
  Learn(4, 10 * kMs);
  Learn(4 + 1000, 30 * kMs);
  Learn(4 + 1000, 90 * kMs);  // 80 us
  EXPECT_EQ(budget_.RowsMax(), 499);
  Learn(4 + 1000, 30 * kMs);
  EXPECT_EQ(budget_.RowsMax(), 571);
  for (int step = 0; step < 20; ++step) Learn(4 + 1000, 30 * kMs);
  EXPECT_EQ(budget_.RowsMax(), 1999);
}

TEST_F(PromptBudgetTest, FewRowsTeachNothing) {
  Learn(4, 10 * kMs);
  Learn(4 + 20, 20 * kMs);
  EXPECT_EQ(budget_.RowsMax(), PromptBudget::kRowsFirst);
  Learn(4 + 1000, 9 * kMs);  // shorter than decoding
  EXPECT_EQ(budget_.RowsMax(), PromptBudget::kRowsFirst);
}

TEST_F(PromptBudgetTest, PromptsAlwaysGoOn) {
  Learn(4 + 1000, 30 * kMs);
  Learn(4, 60 * kMs);
  EXPECT_EQ(budget_.RowsMax(), PromptBudget::kRowsMin);
}

TEST(PromptBudgetWithoutBoundTest, TakesAll) {
  EXPECT_EQ(PromptBudget(0).RowsMax(), std::numeric_limits<int32_t>::max());
}

}  // namespace prompt_budget_test
}  // namespace graft
