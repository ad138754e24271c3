#include "bench/step_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/step_report.h"

namespace graft {
namespace {

using ::testing::ElementsAre;

TEST(StepPlansTest, DraftsAreTheLastOfASequencesRows) {
  const StepPlan plan =
      PlanRows({{.adapter = 1, .rows = 4, .position = 30, .drafts = 3}, {.rows = 5}}, 16, 100, 1);
  ASSERT_EQ(plan.sequences.size(), 2u);
  const PlannedSequence& drawn = plan.sequences[0];
  EXPECT_EQ(drawn.num_tokens, 4);
  EXPECT_EQ(drawn.num_drafts, 3);
  EXPECT_EQ(drawn.num_prompt_rows, 0);
  EXPECT_EQ(drawn.num_pages, 3);
  EXPECT_EQ(plan.num_drafts, 3);
  const PlannedSequence& prompt = plan.sequences[1];
  EXPECT_EQ(prompt.num_drafts, 0);
  EXPECT_EQ(prompt.num_prompt_rows, 5);
  EXPECT_FALSE(prompt.has_mask);
}

TEST(StepPlansTest, AdaptersAreSharedOutEvenly) {
  EXPECT_THAT(ShareOut(2, 5), ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(ShareOut(3, 3), ElementsAre(0, 1, 2));
}

TEST(StepPlansTest, MasksAllowHalfOfTheTokensAndStayTheSame) {
  constexpr int32_t kVocabSize = 3200;
  const auto masks = MakeRandomMasks(kVocabSize, 7);
  const StepPlan plan = PlanRows({{.position = 3, .masked = true}}, 16, kVocabSize, 1);
  ASSERT_TRUE(plan.sequences[0].has_mask);
  std::vector<uint32_t> words(NumMaskWords(kVocabSize)), again(words.size());
  masks->FillMask(plan, 0, words);
  masks->FillMask(plan, 0, again);
  EXPECT_EQ(words, again);
  int num_allowed = 0;
  for (int32_t token = 0; token < kVocabSize; ++token) num_allowed += IsInMask(words.data(), token);
  EXPECT_NEAR(num_allowed, kVocabSize / 2, 150);
}

TEST(StepReportTest, DraftsBringWhatIsAcceptedForWhatTheyCost) {
  const std::vector<DraftsRow> rows = SpeedupsOfDrafts(2, 0.5, {0.0, 0.5, 1.0});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_DOUBLE_EQ(rows[0].tokens, 1.0);
  EXPECT_DOUBLE_EQ(rows[0].ratio, 0.5);
  EXPECT_DOUBLE_EQ(rows[1].tokens, 1.75);
  EXPECT_DOUBLE_EQ(rows[2].tokens, 3.0);
  EXPECT_DOUBLE_EQ(rows[2].ratio, 1.5);
  EXPECT_EQ(DraftsText({rows[1]}), "  accepted with 0.50: 1.75 tokens a step, 0.875 of base");
}

}  // namespace
}  // namespace graft
