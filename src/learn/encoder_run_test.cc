#include "learn/encoder_run.h"

#include <gtest/gtest.h>

#include "learn/encoder_test_run.h"
#include "learn/test_model.h"

namespace graft {
namespace encoder_run_test {

using testing::Documents;
using testing::LearnModel;
using testing::Settings;
using testing::SourcePath;

TrainingLimits Limits() { return {.rows_max = 90, .sequences_max = 4, .rank_max = 4}; }

// Only the memory can tell these answers apart. One answer of each document is held out.
TEST(EncoderRunTest, AMemorySaysItsDocument) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kF32);
  Trainer trainer(model.config, model.weights, Limits(), model.stream);
  EncoderRun run(trainer, Documents(), Settings());
  run.EncodeAll();
  const EncoderRun::Scores before = run.Evaluate();
  EXPECT_EQ(run.memory(0).num_tokens(), 2);
  EXPECT_EQ(run.memory(2).num_tokens(), 4) << "two windows of it";
  while (run.step() < run.num_steps()) run.Step();
  run.EncodeAll();
  const EncoderRun::Scores after = run.Evaluate();
  EXPECT_LT(after.answers, 0.7 * after.answers_without);
  EXPECT_LT(after.held_out, 0.8 * after.held_out_without);
  EXPECT_LT(after.reconstruction, before.reconstruction);
  EXPECT_EQ(before.answers_without, after.answers_without) << "the base does not move";
}

TEST(EncoderRunTest, StagesHavePassesOfTheirOwn) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kF32);
  Trainer trainer(model.config, model.weights, Limits(), model.stream);
  const auto steps = [&](int32_t window_passes) {
    EncoderSettings settings = Settings();
    settings.window_passes = window_passes;
    return EncoderRun(trainer, Documents(), settings).num_steps();
  };
  // There are five windows and nine answers. A step has three of them, and there are twelve passes.
  EXPECT_EQ(steps(0), 20 + 36);
  EXPECT_EQ(steps(3), 5 + 36);
}

// Six of the answers are about one window. A stage of its own learns them behind that window's
// memory.
TEST(EncoderRunTest, LearnsAnswersBehindTheirWindow) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kF32);
  std::vector<EncoderDocument> documents = Documents();
  for (EncoderDocument& document : documents) {
    for (int32_t i = 0; i < 2; ++i) document.answers.training[static_cast<size_t>(i)].window = 0;
  }
  EncoderSettings settings = Settings();
  settings.window_passes = 3;
  settings.window_answer_passes = 20;
  Trainer trainer(model.config, model.weights, Limits(), model.stream);
  EncoderRun run(trainer, documents, settings);
  EXPECT_EQ(run.num_steps(), 5 + 40 + 36);
  while (run.step() < 6) run.Step();
  const double first = run.last_loss();
  while (run.step() < 45) run.Step();
  EXPECT_LT(run.last_loss(), 0.7 * first);
  testing::ExpectGoesOn(model.config, model.weights, Limits(), documents, settings, model.stream);
}

// The same with the base's own vectors and a linear map.
TEST(EncoderRunTest, AMapsMemorySaysItsDocument) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kF32);
  for (const Embedder embedder : {Embedder::kLast, Embedder::kMean}) {
    Trainer trainer(model.config, model.weights, Limits(), model.stream);
    EncoderRun run(trainer, Documents(), testing::MapSettings(model.config, embedder));
    EXPECT_EQ(run.encoder_lora(), nullptr);
    EXPECT_EQ(run.encoder_tokens().num_tokens(), model.config.hidden_size + 1);
    while (run.step() < run.num_steps()) run.Step();
    run.EncodeAll();
    const EncoderRun::Scores after = run.Evaluate();
    EXPECT_LT(after.answers, 0.7 * after.answers_without);
    EXPECT_LT(after.held_out, 0.8 * after.held_out_without);
  }
}

// A run that was killed in either stage ends with the same bits. Another run does not take its
// checkpoint.
TEST(EncoderRunTest, GoesOnFromACheckpoint) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kF32);
  testing::ExpectGoesOn(model.config, model.weights, Limits(), Documents(), Settings(),
                        model.stream);
  testing::ExpectGoesOn(model.config, model.weights, Limits(), Documents(),
                        testing::MapSettings(model.config, Embedder::kMean), model.stream);
}

TEST(EncoderRunTest, AddsWhatItSays) {
  const std::vector<size_t> sizes = {5, 20, 30};
  const std::vector<TrainedShape> shapes = EncoderRun::ShapesOf(sizes, Settings());
  std::vector<int32_t> tokens;
  for (const TrainedShape& shape : shapes) tokens.push_back(shape.virtual_tokens);
  EXPECT_EQ(tokens, (std::vector<int32_t>{2, 0, 1, 2, 2, 2, 2, 4, 6}));
  EXPECT_EQ(EncoderRun::RowsBeforeMax(sizes, Settings()), 6);
  EXPECT_EQ(EncoderRun::TextsAtOnce(sizes, Settings()), 9) << "three documents of up to three";
  EXPECT_EQ(EncoderRun::RowsBeforeMax({sizes.data(), 1}, Settings()), 3) << "with the mark";
}

TEST(EncoderRunTest, TheSameSeedLearnsTheSameBits) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kBF16);
  std::vector<std::vector<float>> memories;
  for (int i = 0; i < 2; ++i) {
    Trainer trainer(model.config, model.weights, Limits(), model.stream);
    EncoderSettings settings = Settings();
    settings.reconstruction_only = true;
    EncoderRun run(trainer, Documents(), settings);
    for (int step = 0; step < 5; ++step) run.Step();
    run.EncodeAll();
    memories.emplace_back(run.memory(1).parameters().begin(), run.memory(1).parameters().end());
  }
  EXPECT_EQ(memories[0], memories[1]);
}

}  // namespace encoder_run_test
}  // namespace graft
