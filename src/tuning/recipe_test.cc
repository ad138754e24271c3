#include "tuning/recipe.h"

#include <gtest/gtest.h>

#include "jobs/learning_json.h"
#include "jobs/old_learning_records.h"
#include "tuning/job_at_work.h"

namespace graft {
namespace {

TEST(RecipeTest, AJobsMethodIsTheRecipe) {
  LearningJob job;
  job.seed = 3;
  job.method = {.learner = "distill",
                .passes = 5,
                .batch = 6,
                .learning_rate_factor = 0.5,
                .rank = 7,
                .alpha = 14.0,
                .window_tokens = 99,
                .held_out_share = 0.1,
                .questions = 2,
                .outputs = 1,
                .output_tokens = 11,
                .keep = 12};
  const LearnRecipe recipe = *RecipeOf(job);
  EXPECT_EQ(recipe.learner, LearnerKind::kDistill);
  const auto learner = MakeNextTokenLearner();
  EXPECT_EQ(ShapeOf(recipe, *learner, 0).scale, 2.0f);
  const LearnerRates rates = RatesOf(recipe, *learner);
  EXPECT_EQ(rates.passes, 5);
  EXPECT_EQ(rates.batch, 6);
  EXPECT_EQ(rates.learning_rate, 0.5 * learner->rates().learning_rate);
  EXPECT_EQ(recipe.window_tokens, 99);
  EXPECT_EQ(recipe.keep, 12);
  EXPECT_EQ(recipe.seed, 3U);
  job.method.learner = "magic";
  EXPECT_FALSE(RecipeOf(job).ok());
}

TEST(RecipeTest, AnOldRecordOfACluster) {
  const auto recipe_of = [](const std::string& hidden_states) {
    const std::string method = OldMethod("distill", hidden_states);
    return RecipeOf(*LearningJobOf(OldEtcdJob("ftjob-old", method)));
  };
  EXPECT_EQ(recipe_of("none")->passes, 4);
  for (const char* word : {"last", "all"}) {
    EXPECT_EQ(recipe_of(word).status().message(),
              "hidden_states was removed since it gained too little; use distill without it");
  }
}

}  // namespace
}  // namespace graft
