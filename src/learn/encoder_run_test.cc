#include "learn/encoder_run.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "learn/test_model.h"

namespace graft {
namespace encoder_run_test {

using testing::LearnModel;
using testing::SourcePath;

// Three documents of few different tokens each, of which every answer says the document's own.
std::vector<EncoderDocument> Documents() {
  std::vector<EncoderDocument> documents;
  for (int32_t i = 0; i < 3; ++i) {
    EncoderDocument document;
    for (int32_t j = 0; j < 10 + 5 * i; ++j) document.tokens.push_back(40 * i + 20 + j % 3);
    for (int32_t j = 0; j < 4; ++j) {
      TrainingExample example;
      example.tokens = {1, 200 + j, 40 * i + 20, 40 * i + 21};
      example.rows = {1, 2};
      example.ids = {40 * i + 20, 40 * i + 21};
      example.probabilities = {1.0f, 1.0f};
      (j == 3 ? document.answers.held_out : document.answers.training).push_back(example);
    }
    documents.push_back(std::move(document));
  }
  return documents;
}

EncoderSettings Settings() {
  return {.rates = {.learning_rate = 1e-2, .prompt_learning_rate = 1e-2, .passes = 12, .batch = 3},
          .rank = 4,
          .memory_tokens = 2,
          .window_tokens = 12,
          .end_token = 2,
          .seed = 5};
}

TrainingLimits Limits() { return {.rows_max = 90, .sequences_max = 4, .rank_max = 4}; }

// Answers that only the memory can tell apart, one of each document held out.
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

TEST(EncoderRunTest, TheSameSeedLearnsTheSameBits) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kBF16);
  std::vector<std::vector<float>> memories;
  for (int i = 0; i < 2; ++i) {
    Trainer trainer(model.config, model.weights, Limits(), model.stream);
    EncoderSettings settings = Settings();
    settings.has_answers = false;
    EncoderRun run(trainer, Documents(), settings);
    for (int step = 0; step < 5; ++step) run.Step();
    run.EncodeAll();
    memories.emplace_back(run.memory(1).parameters().begin(), run.memory(1).parameters().end());
  }
  EXPECT_EQ(memories[0], memories[1]);
}

}  // namespace encoder_run_test
}  // namespace graft
