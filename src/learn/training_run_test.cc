#include "learn/training_run.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/random.h"
#include "learn/test_model.h"

namespace graft {
namespace training_run_test {

using testing::LearnModel;
using testing::SourcePath;

constexpr int32_t kWindow = 12;

LearnerData DataOf(uint64_t document) {
  LearnerInput input;
  input.start = {1};
  input.window_tokens = kWindow;
  Random random(document);
  for (uint64_t i = 0; i < 40 + 60 * document; ++i) {
    input.tokens.push_back(static_cast<int32_t>(random.Below(200)));
  }
  return *MakeNextTokenLearner()->Prepare(input, nullptr);
}

LearnerRates Rates(bool keeps_best) {
  return {.learning_rate = 1e-2, .passes = 3, .batch = 3, .keeps_best = keeps_best};
}

TrainingLimits Limits() {
  return {.rows_max = 3 * 3 * (kWindow + 1), .sequences_max = 9, .rank_max = 4};
}

class TrainingRunTest : public ::testing::Test {
 protected:
  TrainingRunTest()
      : model_(SourcePath("tests/goldens/llama"), DType::kBF16),
        trainer_(model_.config, model_.weights, Limits(), model_.stream) {}

  TrainingRun& Add(uint64_t document, bool keeps_best = false, const std::string& identity = "a") {
    runs_.push_back(std::make_unique<TrainingRun>(trainer_, DataOf(document), Rates(keeps_best),
                                                  TrainedShape{.rank = 4}, document, identity));
    return *runs_.back();
  }

  // `steps` of all runs, or all that they have.
  void Go(int steps = 1000) {
    std::vector<TrainingRun*> runs;
    for (const auto& run : runs_) runs.push_back(run.get());
    for (int i = 0; i < steps; ++i) StepTogether(trainer_, runs);
  }

  static std::vector<float> Parameters(TrainingRun& run) {
    return {run.lora()->parameters().begin(), run.lora()->parameters().end()};
  }

  LearnModel model_;
  Trainer trainer_;
  std::vector<std::unique_ptr<TrainingRun>> runs_;
};

TEST_F(TrainingRunTest, LearnsTheDocument) {
  TrainingRun& run = Add(2);
  run.Begin();
  Go();
  ASSERT_TRUE(run.is_done());
  run.Finish();
  EXPECT_GT(run.scores().num_held_out_rows, 0);
  EXPECT_EQ(run.scores().best_step, run.num_steps());
  EXPECT_LT(run.scores().after, 0.9 * run.scores().before);
}

// A run's numbers do not depend on the others that it makes its steps with, though they have other
// lengths and end earlier.
TEST_F(TrainingRunTest, TogetherIsAlone) {
  std::vector<std::vector<float>> together;
  for (const uint64_t document : {0, 1, 2}) Add(document).Begin();
  EXPECT_NE(runs_[0]->num_steps(), runs_[2]->num_steps());
  Go();
  for (const auto& run : runs_) {
    run->Finish();
    together.push_back(Parameters(*run));
  }
  for (const uint64_t document : {0, 1, 2}) {
    Trainer alone(model_.config, model_.weights, Limits(), model_.stream);
    TrainingRun run(alone, DataOf(document), Rates(false), {.rank = 4}, document, "a");
    TrainingRun* const one[] = {&run};
    run.Begin();
    while (!run.is_done()) StepTogether(alone, one);
    run.Finish();
    EXPECT_EQ(Parameters(run), together[document]);
    EXPECT_EQ(run.scores().after, runs_[document]->scores().after);
  }
}

TEST_F(TrainingRunTest, GoesOnFromACheckpointToTheSameBits) {
  const testing::TempDir dir;
  for (const bool keeps_best : {false, true}) {
    TrainingRun& whole = Add(2, keeps_best);
    whole.Begin();
    Go(5);
    ASSERT_FALSE(whole.is_done());
    ASSERT_TRUE(whole.SaveCheckpoint(dir.File("state")).ok());
    Go();
    whole.Finish();

    Trainer again(model_.config, model_.weights, Limits(), model_.stream);
    TrainingRun run(again, DataOf(2), Rates(keeps_best), {.rank = 4}, 2, "a");
    TrainingRun* const one[] = {&run};
    EXPECT_FALSE(*run.Resume(dir.File("nothing")));
    ASSERT_TRUE(*run.Resume(dir.File("state")));
    EXPECT_EQ(run.step(), 5);
    while (!run.is_done()) StepTogether(again, one);
    run.Finish();
    EXPECT_EQ(Parameters(run), Parameters(whole));
    EXPECT_EQ(run.scores().before, whole.scores().before);
    EXPECT_EQ(run.scores().held_out_after, whole.scores().held_out_after);
    EXPECT_EQ(run.scores().best_step, whole.scores().best_step);
    runs_.clear();
  }
}

TEST_F(TrainingRunTest, AnotherRunsCheckpointIsNotTaken) {
  const testing::TempDir dir;
  TrainingRun& run = Add(1);
  run.Begin();
  Go(1);
  ASSERT_TRUE(run.SaveCheckpoint(dir.File("state")).ok());
  TrainingRun& other = Add(1, false, "b");
  EXPECT_FALSE(*other.Resume(dir.File("state")));
  EXPECT_EQ(other.step(), 0);
  testing::WriteFile(dir.File("text"), "no safetensors");
  EXPECT_FALSE(*other.Resume(dir.File("text")));
}

}  // namespace training_run_test
}  // namespace graft
