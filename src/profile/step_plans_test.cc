#include "profile/step_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace graft
