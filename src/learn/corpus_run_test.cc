#include "learn/corpus_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "learn/corpus_test_run.h"
#include "learn/test_model.h"

namespace graft {
namespace corpus_run_test {

using testing::CorpusRunOf;
using testing::LearnModel;
using testing::LimitsOf;
using testing::SettingsOf;
using testing::SourcePath;
using testing::Words;

constexpr int32_t kWindow = 8;

class CorpusRunTest : public ::testing::Test {
 protected:
  std::unique_ptr<CorpusRunOf> Run(const CorpusSettings& settings, int32_t count = 1 << 30) {
    return std::make_unique<CorpusRunOf>(model_.config, model_.weights, model_.stream, settings,
                                         count);
  }

  LearnModel model_{SourcePath("tests/goldens/llama"), DType::kF32};
};

const MemoryForm kForms[] = {{.window_tokens = 64},
                             {.places = MemoryPlaces::kClose, .window_tokens = kWindow},
                             {.rows = MemoryRows::kBetween, .window_tokens = 64},
                             {.rows = MemoryRows::kBehind, .window_tokens = kWindow, .behind = 3},
                             {.carrier = MemoryCarrier::kStates,
                              .rows = MemoryRows::kBehind,
                              .window_tokens = kWindow,
                              .behind = 3}};

// Only the memory tells the word. Documents that were never seen are answered.
TEST_F(CorpusRunTest, AnswersFromMemoriesOfUnseenDocuments) {
  for (const MemoryForm& form : kForms) {
    const auto learned = Run(SettingsOf(form));
    ASSERT_FALSE(learned->Begin("none"));
    EXPECT_EQ(learned->source.next(), 6) << "are held out";
    learned->Learn();
    EXPECT_EQ(learned->run.num_documents(), 240);
    EXPECT_EQ(learned->source.next(), 246);
    const CorpusRun::Look look = learned->run.LookAt(4);
    EXPECT_EQ(look.num_questions, 12);
    EXPECT_GT(look.memory, 0.9) << "of " << look.in_context << " in context";
    EXPECT_LT(look.other, 0.5);
  }
}

TEST_F(CorpusRunTest, GoesOnFromACheckpoint) {
  for (const MemoryForm& form : {kForms[0], kForms[2], kForms[3]}) {
    CorpusSettings settings = SettingsOf(form);
    settings.steps = 8;
    settings.identity = "one";
    const std::string path = ::testing::TempDir() + "corpus.learning";
    const auto whole = Run(settings);
    ASSERT_FALSE(whole->Begin("none"));
    while (whole->run.step() < 5) ASSERT_TRUE(whole->run.Step().ok());
    ASSERT_TRUE(whole->run.SaveCheckpoint(path).ok());
    whole->Learn();
    const auto again = Run(settings);
    ASSERT_TRUE(again->Begin(path));
    EXPECT_EQ(again->run.step(), 5);
    again->Learn();
    EXPECT_EQ(again->source.next(), whole->source.next());
    EXPECT_EQ(again->run.answer_loss(), whole->run.answer_loss());
    EXPECT_TRUE(std::ranges::equal(again->run.encoder_lora().parameters(),
                                   whole->run.encoder_lora().parameters()));
    EXPECT_TRUE(
        std::ranges::equal(again->run.decoder().parameters(), whole->run.decoder().parameters()));
    settings.identity = "other";
    EXPECT_FALSE(Run(settings)->Begin(path));
    std::filesystem::remove(path);
  }
}

// Without compression and before the first step a memory is what the base reads.
TEST_F(CorpusRunTest, AMemoryOfAllRowsIsTheDocumentInContext) {
  CorpusSettings settings = SettingsOf({.window_tokens = 64});
  settings.stages = {{1.0, 0, {1}}};
  Words source;
  Trainer trainer(model_.config, model_.weights, LimitsOf(settings), model_.stream);
  CorpusRun run(trainer, source, settings);
  const std::vector<int32_t> document = (*source.Next())->tokens;
  const MemoryReading reading = ReadingOf(settings.start, document, settings.form, 1);
  const int32_t slot = 2;  // behind the encoder and the decoder
  const ReadText text{reading.windows[0], slot, reading.rows[0]};
  trainer.EncodeKeysValues(0, {&text, 1});
  TrainingExample in_context, behind;
  in_context.adapter = behind.adapter = 1;
  in_context.tokens = reading.windows[0];
  for (const int32_t token : {7, 9, 11}) {
    in_context.rows.push_back(static_cast<int32_t>(in_context.tokens.size()));
    behind.rows.push_back(static_cast<int32_t>(behind.tokens.size()));
    in_context.tokens.push_back(token);
    behind.tokens.push_back(token);
  }
  behind.prompt = slot;
  behind.prompt_tokens = reading.memory_tokens;
  const TrainingExample* const examples[] = {&in_context, &behind};
  const std::vector<TrainingChoices> said = trainer.Choose(examples, 5, true);
  EXPECT_EQ(said[0].ids, said[1].ids);
  for (size_t i = 0; i < said[0].probabilities.size(); ++i) {
    EXPECT_NEAR(said[0].probabilities[i], said[1].probabilities[i], 1e-6);
  }
}

TEST_F(CorpusRunTest, EndsWithItsCorpus) {
  const auto run = Run(SettingsOf({.window_tokens = 64}), 6 + 9);
  ASSERT_FALSE(run->Begin("none"));
  EXPECT_TRUE(run->run.Step().ok());
  EXPECT_TRUE(run->run.Step().ok());
  EXPECT_EQ(run->run.Step().code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(run->run.is_done());
  const auto few = Run(SettingsOf({.window_tokens = 64}), 5);
  const Status status = few->run.Begin("none", {}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "the corpus has 5 documents, and 6 are held out");
}

TEST(CurriculumTest, CompressionRisesToWhatIsAskedFor) {
  std::vector<int32_t> tokens;
  std::vector<std::vector<int32_t>> compressions;
  double last = 0.0;
  for (const EncoderStage& stage : CurriculumOf({4, 16})) {
    tokens.push_back(stage.tokens);
    compressions.push_back(stage.compressions);
    EXPECT_GT(stage.until, last);
    last = stage.until;
  }
  EXPECT_EQ(tokens, (std::vector<int32_t>{512, 128, 512, 0, 0, 0, 0}));
  EXPECT_EQ(compressions,
            (std::vector<std::vector<int32_t>>{{1}, {2}, {2}, {2}, {4}, {8}, {4, 16}}));
  EXPECT_EQ(last, 1.0);
  EXPECT_EQ(CurriculumOf({1}).back().compressions, std::vector<int32_t>{1});
}

}  // namespace corpus_run_test
}  // namespace graft
