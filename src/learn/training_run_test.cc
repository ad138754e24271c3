#include "learn/training_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

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

  // Makes `steps` steps of all runs, or all that they have.
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
  ASSERT_TRUE(run.Begin().ok());
  Go();
  ASSERT_TRUE(run.is_done());
  ASSERT_TRUE(run.Finish().ok());
  EXPECT_GT(run.scores().num_held_out_rows, 0);
  EXPECT_EQ(run.scores().best_step, run.num_steps());
  EXPECT_LT(run.scores().after, 0.9 * run.scores().before);
}

// A run's numbers do not depend on the runs that it makes its steps with, though these have other
// lengths and end earlier.
TEST_F(TrainingRunTest, TogetherIsAlone) {
  std::vector<std::vector<float>> together;
  for (const uint64_t document : {0, 1, 2}) ASSERT_TRUE(Add(document).Begin().ok());
  EXPECT_NE(runs_[0]->num_steps(), runs_[2]->num_steps());
  Go();
  for (const auto& run : runs_) {
    ASSERT_TRUE(run->Finish().ok());
    together.push_back(Parameters(*run));
  }
  for (const uint64_t document : {0, 1, 2}) {
    Trainer alone(model_.config, model_.weights, Limits(), model_.stream);
    TrainingRun run(alone, DataOf(document), Rates(false), {.rank = 4}, document, "a");
    TrainingRun* const one[] = {&run};
    ASSERT_TRUE(run.Begin().ok());
    while (!run.is_done()) StepTogether(alone, one);
    ASSERT_TRUE(run.Finish().ok());
    EXPECT_EQ(Parameters(run), together[document]);
    EXPECT_EQ(run.scores().after, runs_[document]->scores().after);
  }
}

// Kept examples are evenly spread over a pass, later passes have more of them, and all are learned.
// The document's examples come once in each pass.
TEST_F(TrainingRunTest, KeptExamplesComeMoreOftenInLaterPasses) {
  LearnerData data = DataOf(2);
  data.kept = {data.training.begin(), data.training.begin() + 8};
  for (TrainingExample& example : data.kept) example.weight = 2.0f;
  data.kept_of_pass = 4;
  const size_t num_own = data.training.size();
  const LearnerRates rates = Rates(false);
  TrainingRun run(trainer_, data, rates, {.rank = 4}, 1, "a");
  EXPECT_EQ(run.num_steps(), rates.StepsFor(num_own + 4));
  std::vector<const TrainingExample*> visits;
  TrainingRun* const one[] = {&run};
  ASSERT_TRUE(run.Begin().ok());
  while (!run.is_done()) {
    run.AddExamples(&visits);
    StepTogether(trainer_, one);
  }
  ASSERT_EQ(visits.size(), 3 * (num_own + 4));
  // The first pass has a ninth of the 12 visits. The first two passes together have four ninths.
  const size_t kept_until[] = {0, 1, 5, 12};
  for (size_t pass = 0; pass < 3; ++pass) {
    const size_t begin = pass * num_own + kept_until[pass];
    const size_t end = (pass + 1) * num_own + kept_until[pass + 1];
    std::vector<size_t> places;
    std::set<const TrainingExample*> own;
    for (size_t i = begin; i < end; ++i) {
      if (visits[i]->weight == 2.0f) {
        places.push_back(i - begin);
      } else {
        own.insert(visits[i]);
      }
    }
    EXPECT_EQ(own.size(), num_own);
    ASSERT_EQ(places.size(), kept_until[pass + 1] - kept_until[pass]);
    const size_t gap = (end - begin) / places.size();
    for (size_t k = 0; k < places.size(); ++k) {
      EXPECT_NEAR(static_cast<double>(places[k]), static_cast<double>((k + 1) * gap), gap);
    }
  }
}

TEST_F(TrainingRunTest, GoesOnFromACheckpointToTheSameBits) {
  const testing::TempDir dir;
  for (const bool keeps_best : {false, true}) {
    TrainingRun& whole = Add(2, keeps_best);
    ASSERT_TRUE(whole.Begin().ok());
    Go(5);
    ASSERT_FALSE(whole.is_done());
    ASSERT_TRUE(whole.SaveCheckpoint(dir.File("state")).ok());
    Go();
    ASSERT_TRUE(whole.Finish().ok());

    Trainer again(model_.config, model_.weights, Limits(), model_.stream);
    TrainingRun run(again, DataOf(2), Rates(keeps_best), {.rank = 4}, 2, "a");
    TrainingRun* const one[] = {&run};
    EXPECT_FALSE(*run.Resume(dir.File("nothing")));
    ASSERT_TRUE(*run.Resume(dir.File("state")));
    EXPECT_EQ(run.step(), 5);
    while (!run.is_done()) StepTogether(again, one);
    ASSERT_TRUE(run.Finish().ok());
    EXPECT_EQ(Parameters(run), Parameters(whole));
    EXPECT_EQ(run.scores().before, whole.scores().before);
    EXPECT_EQ(run.scores().held_out_after, whole.scores().held_out_after);
    EXPECT_EQ(run.scores().best_step, whole.scores().best_step);
    runs_.clear();
  }
}

// A run that is cut off for good after each batch that it only looks at ends like one that was
// never cut off: the checkpoint has what it has seen so far.
TEST_F(TrainingRunTest, PassesThatLookGoOnFromACheckpointToTheSameBits) {
  const testing::TempDir dir;
  const std::string file = dir.File("state");
  TrainingRun& whole = Add(2, true);
  ASSERT_TRUE(whole.Begin().ok());
  Go();
  ASSERT_TRUE(whole.Finish().ok());
  int num_lives = 0;
  for (bool is_over = true; is_over; ++num_lives) {
    Trainer again(model_.config, model_.weights, Limits(), model_.stream);
    TrainingRun run(again, DataOf(2), Rates(true), {.rank = 4}, 2, "a");
    TrainingRun* const one[] = {&run};
    ASSERT_EQ(*run.Resume(file), num_lives > 0);
    is_over = false;
    run.set_on_batch([&] {
      if (!is_over) {
        EXPECT_TRUE(run.SaveCheckpoint(file).ok());
      }
      is_over = true;
      return CancelledError("it ends here");
    });
    (void)run.Begin();
    while (!is_over && !run.is_done()) StepTogether(again, one);
    if (is_over) continue;
    const bool is_finished = run.Finish().ok();
    EXPECT_EQ(is_finished, !is_over);
    if (is_over) continue;
    EXPECT_EQ(Parameters(run), Parameters(whole));
    EXPECT_EQ(run.scores().before, whole.scores().before);
    EXPECT_EQ(run.scores().after, whole.scores().after);
    EXPECT_EQ(run.scores().held_out_before, whole.scores().held_out_before);
    EXPECT_EQ(run.scores().held_out_after, whole.scores().held_out_after);
    EXPECT_EQ(run.scores().best_step, whole.scores().best_step);
  }
  EXPECT_GT(num_lives, 6);
}

// A loss that is NaN is neither less nor more than another, and is never the best one.
TEST_F(TrainingRunTest, WhatIsNoNumberIsNeverTheBest) {
  LearnerRates rates = Rates(/*keeps_best=*/true);
  rates.passes = 6;
  runs_.push_back(
      std::make_unique<TrainingRun>(trainer_, DataOf(2), rates, TrainedShape{.rank = 4}, 2, "a"));
  TrainingRun& run = *runs_.back();
  ASSERT_TRUE(run.Begin().ok());
  const int32_t half = run.num_steps() / 2;
  Go(half);
  for (float& parameter : run.lora()->parameters()) parameter = std::nanf("");
  run.lora()->Refresh();
  Go();
  ASSERT_FALSE(std::isfinite(run.last_loss()));
  ASSERT_TRUE(run.Finish().ok());
  EXPECT_GT(run.scores().best_step, 0);
  EXPECT_LE(run.scores().best_step, half);
  for (const float parameter : Parameters(run)) ASSERT_TRUE(std::isfinite(parameter));
  EXPECT_LT(run.scores().held_out_after, run.scores().held_out_before);
}

TEST(LearnerRatesTest, StepsTakeTheirPasses) {
  LearnerRates rates = Rates(false);  // three passes in steps of three
  EXPECT_EQ(rates.StepsFor(7), 7);
  EXPECT_EQ(rates.PassesFor(7), 3);
  rates.steps = 5;
  EXPECT_EQ(rates.StepsFor(7), 5);
  EXPECT_EQ(rates.PassesFor(7), 3) << "15 visits";
  EXPECT_EQ(rates.PassesFor(15), 1);
  EXPECT_EQ(rates.PassesFor(16), 1);
}

// LoRA and keys and values of every layer begin with another adapter's, and learn on from there. A
// run that makes them worse ends with them.
TEST_F(TrainingRunTest, BeginsWithAnotherAdaptersNumbers) {
  const TrainedShape shape{.rank = 4, .virtual_tokens = 3, .kind = VirtualTokenKind::kKeysValues};
  TrainingLimits limits = Limits();
  limits.prefix_tokens_max = 3;
  Trainer trainer(model_.config, model_.weights, limits, model_.stream);
  const auto numbers_of = [](TrainingRun& run) {
    return std::pair{Parameters(run), std::vector<float>(run.prompt()->parameters().begin(),
                                                         run.prompt()->parameters().end())};
  };
  LearnerData data = DataOf(2);
  data.text = {1, 5, 9, 13};
  data.held_out = data.training;
  TrainingRun first(trainer, data, Rates(false), shape, 2, "a");
  TrainingRun* one[] = {&first};
  ASSERT_TRUE(first.Begin().ok());
  while (!first.is_done()) StepTogether(trainer, one);
  ASSERT_TRUE(first.Finish().ok());
  const auto begins = numbers_of(first);
  data.begins = {std::make_shared<const std::vector<float>>(begins.first), begins.second};

  for (const float rate : {0.0f, 1e-3f, 10.0f}) {
    LearnerRates rates = {.learning_rate = rate,
                          .prompt_learning_rate = rate,
                          .steps = 4,
                          .batch = 3,
                          .keeps_best = true};
    TrainingRun run(trainer, data, rates, shape, 3, "b");
    one[0] = &run;
    ASSERT_TRUE(run.Begin().ok());
    EXPECT_EQ(numbers_of(run), begins);
    EXPECT_EQ(run.num_steps(), 4);
    while (!run.is_done()) StepTogether(trainer, one);
    ASSERT_TRUE(run.Finish().ok());
    EXPECT_EQ(numbers_of(run) == begins, rate != 1e-3f) << rate;
    EXPECT_EQ(run.scores().before, first.scores().before) << "the base's";
    EXPECT_LE(run.scores().held_out_after, first.scores().held_out_after);
  }
}

TEST_F(TrainingRunTest, ACheckpointOfOtherExamplesIsNotTaken) {
  const testing::TempDir dir;
  TrainingRun& run = Add(1);
  ASSERT_TRUE(run.Begin().ok());
  Go(4);
  ASSERT_TRUE(run.SaveCheckpoint(dir.File("state")).ok());
  for (const bool is_shorter : {false, true}) {
    LearnerData data = DataOf(1);
    if (is_shorter) {
      data.training.resize(1);  // then it has fewer steps
    } else {
      ++data.training[0].ids[0];
    }
    TrainingRun other(trainer_, std::move(data), Rates(false), {.rank = 4}, 1, "a");
    EXPECT_FALSE(*other.Resume(dir.File("state")));
    EXPECT_EQ(other.step(), 0);
  }
  EXPECT_TRUE(*Add(1).Resume(dir.File("state")));
}

TEST_F(TrainingRunTest, AnotherRunsCheckpointIsNotTaken) {
  const testing::TempDir dir;
  TrainingRun& run = Add(1);
  ASSERT_TRUE(run.Begin().ok());
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
