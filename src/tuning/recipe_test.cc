#include "tuning/recipe.h"

#include <gtest/gtest.h>

#include "adapters/prompt_config.h"
#include "jobs/learning_json.h"
#include "jobs/old_learning_testing.h"
#include "learn/training_sizes.h"

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
  const LearnRecipe recipe = *RecipeOf(job.method, job.seed);
  EXPECT_EQ(recipe.learner, LearnerKind::kDistill);
  const auto learner = MakeNextTokenLearner();
  EXPECT_EQ(ShapeOf(recipe, *learner, 0).scale, 2.0f);
  const LearnerRates rates = RatesOf(recipe, *learner);
  EXPECT_EQ(rates.passes, 5);
  EXPECT_EQ(rates.batch, 6);
  EXPECT_EQ(rates.learning_rate, 0.5 * learner->rates().learning_rate);
  EXPECT_EQ(recipe.method.window_tokens, 99);
  EXPECT_EQ(recipe.method.keep, 12);
  EXPECT_EQ(recipe.seed, 3U);
  job.method.learner = "magic";
  EXPECT_FALSE(RecipeOf(job.method, job.seed).ok());
}

TEST(RecipeTest, AMethodMayAskForWhatAdaptersAndTrainingTake) {
  EXPECT_EQ(MethodRowOf("rank").max, kLoraRankMax);
  EXPECT_EQ(MethodRowOf("virtual_tokens").max, kVirtualTokensMax);
  EXPECT_EQ(MethodRowOf("batch").max, kTrainingSequencesMax);
  DocumentMethod method = {.learner = "memory", .batch = kTrainingSequencesMax + 1};
  EXPECT_EQ(RecipeOf(method, 0).status().message(), "batch_size is 2049, 2048 at most");
  method.batch = kTrainingSequencesMax;
  EXPECT_EQ(RecipeOf(method, 0)->learner, LearnerKind::kMemory);
}

TEST(RecipeTest, DistillMayBeginWithAnEncodersAdapter) {
  DocumentMethod method = {.learner = "distill", .steps = 20, .begin = "encoder"};
  EXPECT_TRUE(RecipeOf(method, 0)->begins_encoded);
  EXPECT_EQ(RatesOf(*RecipeOf(method, 0), *MakeNextTokenLearner()).StepsFor(1000), 20);
  method.learner = "prefix";
  EXPECT_NE(RecipeOf(method, 0).status().message().find("not where prefix does"),
            std::string::npos);
  method.begin = "moon";
  EXPECT_FALSE(RecipeOf(method, 0).ok());
}

TEST(RecipeTest, LearnersOwnNumbersAreTold) {
  EXPECT_EQ(OwnOfLearners(MethodRowOf("steps")), "encoder 10000");
  EXPECT_NE(OwnOfLearners(MethodRowOf("rank")).find("distill 16"), std::string::npos);
  EXPECT_EQ(OwnOfLearners(MethodRowOf("virtual_tokens")).find("distill"), std::string::npos);
  EXPECT_EQ(OwnOfLearners(MethodRowOf("alpha")), "");
}

TEST(RecipeTest, AnOldRecordOfACluster) {
  const auto recipe_of = [](const std::string& hidden_states) {
    const std::string method = OldMethod("distill", hidden_states);
    const LearningJob job = *LearningJobOf(OldEtcdJob("ftjob-old", method));
    return RecipeOf(job.method, job.seed);
  };
  EXPECT_EQ(recipe_of("none")->method.passes, 4);
  for (const char* word : {"last", "all"}) {
    EXPECT_EQ(recipe_of(word).status().message(),
              "hidden_states was removed since it gained too little; use distill without it");
  }
}

}  // namespace
}  // namespace graft
