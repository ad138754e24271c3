#include <gtest/gtest.h>

#include "base/random.h"
#include "learn/learner.h"
#include "learn/test_model.h"
#include "learn/training_run.h"

namespace graft {
namespace task_test {

using testing::LearnModel;
using testing::SourcePath;

// Two questions about each document. All end in the same two tokens, whatever the document.
std::vector<TaskQuestion> QuestionsAbout(int32_t num_documents, int32_t first_document) {
  std::vector<TaskQuestion> questions;
  Random random(3);
  for (int32_t i = 0; i < 2 * num_documents; ++i) {
    TaskQuestion question{.answer = {77, 78}, .document = first_document + i / 2};
    for (int32_t j = 0; j < 6; ++j) {
      question.prompt.push_back(static_cast<int32_t>(random.Below(200)));
    }
    questions.push_back(std::move(question));
  }
  return questions;
}

TEST(TaskTest, WholeDocumentsAreHeldOut) {
  const auto learner = MakeTaskLearner(QuestionsAbout(6, 0));
  LearnerInput input;
  input.held_out_share = 0.3;
  const LearnerData data = *learner->Prepare(input, nullptr);
  EXPECT_EQ(data.held_out.size(), 4u);
  for (const TrainingExample& held_out : data.held_out) {
    for (const TrainingExample& learned : data.training) {
      EXPECT_NE(held_out.document, learned.document);
    }
  }
  EXPECT_EQ(data.training[0].tokens.size(), 8u);
  EXPECT_EQ(data.training[0].rows, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(data.training[0].ids, (std::vector<int32_t>{77, 78}));
  EXPECT_EQ(learner->ExampleTokensMax(1), 8);
  EXPECT_FALSE(MakeTaskLearner({})->Prepare(input, nullptr).ok());
  EXPECT_FALSE(MakeTaskLearner({{.prompt = {1}}})->Prepare(input, nullptr).ok());
}

// The documents have LoRA, keys and values, or embeddings. None of them moves.
TEST(TaskTest, LearnsBesideFrozenDocuments) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kF32);
  Trainer trainer(model.config, model.weights,
                  {.rows_max = 64, .sequences_max = 4, .prefix_tokens_max = 5, .rank_max = 4},
                  model.stream);
  std::vector<TrainedShape> shapes(5, {.rank = 3, .scale = 0.5f, .is_frozen = true});
  shapes[1] = {.virtual_tokens = 5, .kind = VirtualTokenKind::kKeysValues, .is_frozen = true};
  shapes[2] = {.rank = 2, .virtual_tokens = 4, .is_frozen = true};
  std::vector<std::vector<float>> before;
  for (const TrainedShape& shape : shapes) {
    const int32_t index = trainer.Add(shape);
    Random random(static_cast<uint64_t>(index));
    std::vector<float> numbers;
    if (trainer.lora(index) != nullptr) {
      for (float& number : trainer.lora(index)->parameters()) {
        number = static_cast<float>(random.Uniform() - 0.5) * 0.1f;
      }
      trainer.lora(index)->Refresh();
      numbers.assign(trainer.lora(index)->parameters().begin(),
                     trainer.lora(index)->parameters().end());
    }
    if (trainer.prompt(index) != nullptr) {
      trainer.BeginPrompt(index, std::vector<int32_t>{9, 8, 7, 6, 5, 4});
    }
    before.push_back(std::move(numbers));
  }
  LearnerInput input;
  input.held_out_share = 0.2;
  const auto learner = MakeTaskLearner(QuestionsAbout(5, 0));
  LearnerRates rates = learner->rates();
  rates.learning_rate = 1e-2;
  rates.batch = 4;
  rates.passes = 12;
  TrainingRun run(trainer, *learner->Prepare(input, nullptr), rates, {.rank = 4}, 1, "");
  TrainingRun* const one[] = {&run};
  ASSERT_TRUE(run.Begin().ok());
  while (!run.is_done()) StepTogether(trainer, one);
  ASSERT_TRUE(run.Finish().ok());
  EXPECT_LT(run.scores().after, 0.6 * run.scores().before);
  EXPECT_LT(run.scores().held_out_after, 0.9 * run.scores().held_out_before);
  for (size_t i = 0; i < shapes.size(); ++i) {
    TrainedLora* const lora = trainer.lora(static_cast<int32_t>(i));
    if (lora == nullptr) continue;
    EXPECT_TRUE(std::equal(before[i].begin(), before[i].end(), lora->parameters().begin()));
  }
}

}  // namespace task_test
}  // namespace graft
