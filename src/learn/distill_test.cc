#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "kernels/token_loss/token_loss.h"
#include "learn/learner.h"
#include "learn/test_model.h"
#include "learn/training_run.h"

namespace graft {
namespace distill_test {

using testing::LearnModel;
using testing::SourcePath;

constexpr int32_t kOutput = 6;

// Writes tokens drawn from the order's seed. For each token t it says probabilities of 0.75 for t
// and 0.125 for t + 1.
class FakeWriter : public TextWriter {
 public:
  Result<std::vector<TaughtText>> Write(std::span<const WriteOrder> orders) override {
    orders_.insert(orders_.end(), orders.begin(), orders.end());
    std::vector<TaughtText> texts;
    for (const WriteOrder& order : orders) {
      TaughtText text{.tokens = order.given};
      Random random(order.seed);
      while (order.given.empty() && static_cast<int32_t>(text.tokens.size()) < order.tokens_max) {
        text.tokens.push_back(100 + static_cast<int32_t>(random.Below(20)));
      }
      for (const int32_t token : text.tokens) {
        text.ids.insert(text.ids.end(), {token, token + 1});
        text.probabilities.insert(text.probabilities.end(), {0.75f, 0.125f});
      }
      texts.push_back(std::move(text));
    }
    return texts;
  }
  int32_t num_choices() const override { return 2; }
  const std::vector<WriteOrder>& orders() const { return orders_; }

 private:
  std::vector<WriteOrder> orders_;
};

LearnerInput InputOf(int32_t num_tokens) {
  LearnerInput input;
  input.start = {1};
  input.tokens.resize(static_cast<size_t>(num_tokens));
  std::iota(input.tokens.begin(), input.tokens.end(), 10);
  input.window_tokens = 20;
  return input;
}

DistillSettings Settings() {
  return {.prompts = {{{1}, {}, {1}}, {{1}, {7, 8}, {1, 7, 8}}},
          .outputs = 3,
          .output_tokens = kOutput};
}

TEST(DistillTest, TheTeacherReadsTheWindowAndTheStudentDoesNot) {
  FakeWriter writer;
  const auto learner = MakeDistillLearner(Settings());
  const LearnerData data = *learner->Prepare(InputOf(30), &writer);
  // Two windows with two prompts and three texts each, and two half windows behind other halves.
  ASSERT_EQ(writer.orders().size(), 14u);
  EXPECT_EQ(data.held_out.size(), 1u);
  EXPECT_EQ(data.training.size(), 13u);
  const WriteOrder& told = writer.orders()[3];
  EXPECT_EQ(told.prompt.size(), 1u + 15u + 2u);
  EXPECT_EQ(told.prompt.back(), 8);
  EXPECT_NE(told.seed, writer.orders()[4].seed);
  for (const WriteOrder& order : writer.orders()) {
    EXPECT_LE(static_cast<int32_t>(order.prompt.size() + order.given.size()) + order.tokens_max,
              learner->TeacherTokensMax(20));
  }
  for (const TrainingExample& example : data.training) {
    EXPECT_LE(static_cast<int32_t>(example.tokens.size()), learner->ExampleTokensMax(20));
    ASSERT_EQ(example.num_choices, 2);
    ASSERT_EQ(example.ids.size(), 2 * example.rows.size());
    for (size_t i = 0; i < example.rows.size(); ++i) {
      const int32_t said = example.tokens[static_cast<size_t>(example.rows[i]) + 1];
      EXPECT_EQ(example.ids[2 * i], said);
      EXPECT_EQ(example.ids[2 * i + 1], said + 1);
      EXPECT_EQ(example.probabilities[2 * i], 0.75f);
    }
  }
  const TrainingExample& instructed = data.training[3];
  EXPECT_EQ((std::vector<int32_t>(instructed.tokens.begin(), instructed.tokens.begin() + 3)),
            (std::vector<int32_t>{1, 7, 8}));
  EXPECT_EQ(instructed.rows.size(), static_cast<size_t>(kOutput));
  EXPECT_EQ(instructed.rows[0], 2);
}

// Each text that is written has two questions: its first tokens, and one that is always the same.
class FakeForm : public QuestionForm {
 public:
  const DistillPrompt& writes() const override { return writes_; }
  int32_t questions_a_text() const override { return 2; }
  Result<std::vector<DistillPrompt>> QuestionsIn(std::span<const int32_t> text) const override {
    const std::vector<int32_t> first = {50, text[0], text[1], 51};
    return std::vector<DistillPrompt>{{{1}, first, first}, {{1}, {50, 99, 51}, {50, 99, 51}}};
  }
  int32_t prompt_tokens_max() const override { return 5; }
  int32_t answer_tokens_max() const override { return 4; }
  size_t AnswerTokens(std::span<const int32_t> said) const override { return said.size() - 1; }

 private:
  const DistillPrompt writes_ = {{1}, {60, 61}, {}};
};

// The base writes questions and answers them with the window in front. The answers are taught
// behind the question alone.
TEST(DistillTest, QuestionsAreAskedAsTheyWillBe) {
  FakeWriter writer;
  DistillSettings settings = Settings();
  settings.outputs = 0;
  settings.form = std::make_shared<FakeForm>();
  settings.questions = 5;
  const auto learner = MakeDistillLearner(settings);
  const LearnerData data = *learner->Prepare(InputOf(34), &writer);
  // Two windows with three texts each, and as many different questions from these as are wanted.
  std::vector<const WriteOrder*> written;
  std::vector<const WriteOrder*> asked;
  for (const WriteOrder& order : writer.orders()) {
    if (!order.given.empty()) continue;
    (order.prompt.back() == 61 ? written : asked).push_back(&order);
    EXPECT_LE(static_cast<int32_t>(order.prompt.size()) + order.tokens_max,
              learner->TeacherTokensMax(20));
  }
  ASSERT_EQ(written.size(), 6u);
  EXPECT_NE(written[0]->seed, written[1]->seed);
  EXPECT_EQ(written[0]->prompt.size(), 1u + 8u + 2u) << "about half of the window";
  ASSERT_EQ(asked.size(), 8u) << "three of a text's own and the common one, of each window";
  EXPECT_EQ(asked[0]->temperature, 0.0f);
  EXPECT_EQ(asked[0]->prompt.size(), 1u + 17u + 4u) << "the whole window before the question";
  size_t num_answers = 0;
  for (const std::vector<TrainingExample>* part : {&data.training, &data.held_out}) {
    for (const TrainingExample& example : *part) {
      if (example.tokens[0] != 50) continue;
      ++num_answers;
      ASSERT_EQ(example.rows.size(), 3u) << "up to the answer's end, and no token of the question";
      EXPECT_EQ(example.tokens[static_cast<size_t>(example.rows[0])], 51);
      EXPECT_EQ(example.ids[0], example.tokens[static_cast<size_t>(example.rows[0]) + 1]);
      EXPECT_LE(static_cast<int32_t>(example.tokens.size()), learner->ExampleTokensMax(20));
    }
  }
  EXPECT_EQ(num_answers, 8u);
}

// A document shorter than a window has fewer questions. Its last window has as many as others.
TEST(DistillTest, QuestionsAreByTheDocumentsTokens) {
  DistillSettings settings = Settings();
  settings.outputs = 0;
  settings.form = std::make_shared<FakeForm>();
  settings.questions = 36;  // of a window of 18 tokens of its own
  for (const auto& [num_tokens, num_texts] :
       {std::pair{9, 9}, {18, 18}, {20, 18}, {36, 36}, {40, 40}}) {
    FakeWriter writer;
    ASSERT_TRUE(MakeDistillLearner(settings)->Prepare(InputOf(num_tokens), &writer).ok());
    const auto written = std::count_if(
        writer.orders().begin(), writer.orders().end(),
        [](const WriteOrder& order) { return order.given.empty() && order.prompt.back() == 61; });
    EXPECT_EQ(written, num_texts) << num_tokens;
  }
}

// So many are answered as few steps visit, and no more texts are kept than they take.
TEST(DistillTest, FewStepsAskFewQuestions) {
  DistillSettings settings = Settings();
  settings.outputs = 0;
  settings.form = std::make_shared<FakeForm>();
  settings.questions = 36;
  for (const auto& [visits, num_texts] : {std::pair{0, 36}, {9, 6}, {1000, 36}}) {
    settings.visits = visits;
    FakeWriter writer;
    const auto learner = MakeDistillLearner(settings);
    (void)*learner->Prepare(InputOf(36), &writer);
    EXPECT_EQ(std::ranges::count_if(writer.orders(),
                                    [](const WriteOrder& order) {
                                      return order.given.empty() && order.prompt.back() == 61;
                                    }),
              num_texts)
        << visits;
  }
}

// Held-out questions are told, and no example that is learned is about one of them.
TEST(DistillTest, QuestionsThatAreNotTaughtAreAsked) {
  FakeWriter writer;
  DistillSettings settings = Settings();
  settings.outputs = 0;
  settings.form = std::make_shared<FakeForm>();
  settings.questions = 150;
  LearnerInput input = InputOf(34);
  const LearnerData data = *MakeDistillLearner(settings)->Prepare(input, &writer);
  const auto starts_with = [](const TrainingExample& example, const std::vector<int32_t>& prompt) {
    return example.tokens.size() > prompt.size() &&
           std::equal(prompt.begin(), prompt.end(), example.tokens.begin());
  };
  ASSERT_GE(data.asked.size(), 8u);
  for (const AskedQuestion& question : data.asked) {
    EXPECT_FALSE(question.answer.empty());
    EXPECT_TRUE(std::any_of(data.held_out.begin(), data.held_out.end(), [&](const auto& example) {
      return starts_with(example, question.prompt);
    }));
    EXPECT_TRUE(std::none_of(data.training.begin(), data.training.end(), [&](const auto& example) {
      return starts_with(example, question.prompt);
    }));
  }
  input.held_out_share = 0.0;
  FakeWriter again;
  EXPECT_TRUE(MakeDistillLearner(settings)->Prepare(input, &again)->asked.empty());
}

// The document's own text: the half window that the teacher has read is not in the example.
TEST(DistillTest, HalfWindowsTeachWhatFollowsThem) {
  FakeWriter writer;
  DistillSettings settings = Settings();
  settings.outputs = 0;
  const LearnerData data = *MakeDistillLearner(settings)->Prepare(InputOf(34), &writer);
  ASSERT_EQ(data.training.size(), 3u);
  EXPECT_EQ(data.training[0].tokens[1], 20);
  EXPECT_EQ(data.training[0].tokens.size(), 11u);
  EXPECT_EQ(writer.orders()[0].prompt[1], 10);
  EXPECT_EQ(data.training[2].tokens.size(), 5u) << "the rest of the document";
  const Status status = MakeDistillLearner(settings)->Prepare(InputOf(5), &writer).status();
  EXPECT_NE(status.message().find("5 tokens"), std::string::npos);
}

// Texts that have nothing to do with the document: teacher and student read the same, and no score
// includes them.
TEST(DistillTest, KeptTextsAreTheBasesOwnWithoutTheDocument) {
  FakeWriter writer;
  DistillSettings settings = Settings();
  settings.outputs = 6;
  settings.kept_starts = {{1}, {1, 9}};
  settings.kept = 5;
  settings.kept_weight = 3.0f;
  const auto learner = MakeDistillLearner(settings);
  const LearnerData data = *learner->Prepare(InputOf(30), &writer);
  EXPECT_EQ(data.training.size() + data.held_out.size(), 26u) << "as without them";
  ASSERT_EQ(data.kept.size(), 3u) << "one for eight of the document's";
  const std::span<const WriteOrder> orders = std::span(writer.orders()).last(3);
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<int32_t>& start = settings.kept_starts[i % 2];
    EXPECT_EQ(orders[i].prompt, start);
    EXPECT_EQ(orders[i].temperature, 1.0f);
    EXPECT_EQ(orders[i].top_p, 1.0f);
    const TrainingExample& example = data.kept[i];
    EXPECT_EQ(example.num_prompt_tokens, static_cast<int32_t>(start.size()));
    EXPECT_EQ(example.rows.front(), static_cast<int32_t>(start.size()) - 1);
    EXPECT_EQ(example.rows.size() + start.size(), example.tokens.size());
    EXPECT_LE(static_cast<int32_t>(example.tokens.size()), learner->ExampleTokensMax(20));
    ASSERT_EQ(example.num_choices, 3);
    EXPECT_EQ(example.ids[2], kTokenRest);
    EXPECT_EQ(example.probabilities[2], 0.125f) << "all other tokens'";
    EXPECT_EQ(example.weight, 3.0f);
  }
  EXPECT_EQ(data.training[0].weight, 1.0f);
  ASSERT_EQ(data.training[0].num_choices, 3) << "as many, since they are learned in one step";
  EXPECT_EQ(data.training[0].ids[2], kTokenRest);
  EXPECT_EQ(data.training[0].probabilities[2], 0.0f);
  EXPECT_NE(data.kept[0].tokens, data.kept[2].tokens);
  EXPECT_EQ(data.kept_of_pass, 3);
  settings.kept_passes = 4;
  const LearnerData passes = *MakeDistillLearner(settings)->Prepare(InputOf(30), &writer);
  ASSERT_EQ(passes.kept.size(), 12u) << "others for each pass";
  EXPECT_EQ(passes.kept_of_pass, 3);
  EXPECT_EQ(passes.kept[2].tokens, data.kept[2].tokens);
  EXPECT_NE(passes.kept[5].tokens, passes.kept[2].tokens);
  settings.kept = 0;
  EXPECT_TRUE(MakeDistillLearner(settings)->Prepare(InputOf(30), &writer)->kept.empty());
}

// Given texts are read in place of texts that the base would write: their first pieces, then their
// second ones.
TEST(DistillTest, KeptTextsMayBeGiven) {
  FakeWriter writer;
  DistillSettings settings = Settings();
  settings.outputs = 6;
  settings.kept_starts = {{1}};
  settings.kept = 4;
  settings.kept_passes = 2;
  settings.kept_texts.resize(3);
  for (int32_t i = 0; i < 140; ++i) settings.kept_texts[0].push_back(100 + i);
  for (int32_t i = 0; i < 66; ++i) settings.kept_texts[1].push_back(300 + i);
  settings.kept_texts[2] = {500, 501, 502};  // too short to be learned
  const auto learner = MakeDistillLearner(settings);
  const LearnerData data = *learner->Prepare(InputOf(30), &writer);
  // 140 tokens are three pieces. 66 tokens are one piece, and two tokens that are left over.
  ASSERT_EQ(data.kept.size(), 4u);
  EXPECT_EQ(data.kept_of_pass, 3) << "one for eight of the document's";
  const int32_t first[] = {100, 300, 164, 228};
  const size_t count[] = {64, 64, 64, 12};
  const std::span<const WriteOrder> orders = std::span(writer.orders()).last(4);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(orders[i].prompt, std::vector<int32_t>{1});
    EXPECT_EQ(orders[i].given.size(), count[i]);
    const TrainingExample& example = data.kept[i];
    ASSERT_EQ(example.tokens.size(), 1 + count[i]);
    EXPECT_EQ(example.tokens[1], first[i]);
    EXPECT_EQ(example.rows.front(), 0);
    EXPECT_EQ(example.rows.size(), count[i]);
    EXPECT_EQ(example.ids[2], kTokenRest);
    EXPECT_EQ(example.probabilities[2], 0.125f);
    EXPECT_LE(static_cast<int32_t>(example.tokens.size()), learner->ExampleTokensMax(20));
  }
  // In a model without a BOS something stands before the first token that is looked at, too.
  LearnerInput input = InputOf(30);
  input.start.clear();
  const LearnerData plain = *learner->Prepare(input, &writer);
  EXPECT_EQ(plain.kept[0].tokens.size(), 64u);
  EXPECT_EQ(plain.kept[0].rows.front(), 0);
  EXPECT_EQ(plain.kept[0].rows.size(), 63u);
}

TrainingLimits LimitsOf(const Learner& learner) {
  return {.rows_max = 4 * learner.ExampleTokensMax(20), .sequences_max = 4, .rank_max = 4};
}

// Large steps, four examples each.
LearnerRates RatesOf(const Learner& learner, int32_t passes) {
  LearnerRates rates = learner.rates();
  rates.learning_rate = 1e-2;
  rates.batch = 4;
  rates.passes = passes;
  return rates;
}

void Learn(Trainer& trainer, TrainingRun& run) {
  TrainingRun* const one[] = {&run};
  ASSERT_TRUE(run.Begin().ok());
  while (!run.is_done()) StepTogether(trainer, one);
  ASSERT_TRUE(run.Finish().ok());
}

// Kept texts are learned beside the document's, and losses count only the document's.
TEST(DistillTest, KeptTextsAreLearnedAndInNoScore) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kF32);
  FakeWriter writer;
  DistillSettings settings = Settings();
  settings.outputs = 8;
  settings.kept_starts = {{1}};
  settings.kept = 4;
  const auto learner = MakeDistillLearner(settings);
  Trainer trainer(model.config, model.weights, LimitsOf(*learner), model.stream);
  const LearnerRates rates = RatesOf(*learner, /*passes=*/4);
  double before[2], loss_of_kept[2];
  for (const bool keeps : {false, true}) {
    LearnerData data = *learner->Prepare(InputOf(30), &writer);
    std::vector<TrainingExample> others = data.kept;
    if (!keeps) data.kept_of_pass = 0;
    const size_t num_examples = data.training.size() + static_cast<size_t>(data.kept_of_pass);
    TrainingRun run(trainer, std::move(data), rates, {.rank = 4}, 1, "");
    EXPECT_EQ(run.num_steps(), rates.StepsFor(num_examples));
    Learn(trainer, run);
    before[keeps] = run.scores().before;
    for (TrainingExample& example : others) example.adapter = run.adapter();
    loss_of_kept[keeps] =
        trainer.Evaluate(testing::PointersTo(others))[static_cast<size_t>(run.adapter())].tokens;
  }
  EXPECT_EQ(before[0], before[1]);
  EXPECT_LT(loss_of_kept[1], loss_of_kept[0]);
}

int64_t BytesOf(const LearnerData& data, int64_t* tokens) {
  int64_t bytes = 0;
  for (const auto* examples : {&data.training, &data.held_out, &data.kept}) {
    for (const TrainingExample& example : *examples) {
      *tokens += static_cast<int64_t>(example.tokens.size());
      bytes += static_cast<int64_t>(
          sizeof(example) + 4 * (example.tokens.capacity() + example.rows.capacity() +
                                 example.ids.capacity() + example.probabilities.capacity()));
    }
  }
  return bytes;
}

// The size of a document's data is known before a text is written, whatever its texts begin with.
TEST(DistillTest, ExamplesAreWithinWhatIsReckonedWith) {
  for (const int32_t start : {0, 1, 2, 5}) {
    for (const int32_t outputs : {0, 3}) {
      DistillSettings settings = Settings();
      settings.start_tokens = start;
      settings.outputs = outputs;
      settings.form = std::make_shared<FakeForm>();
      settings.questions = 5;
      settings.kept = 2;
      settings.kept_starts = {std::vector<int32_t>(static_cast<size_t>(start) + 1, 3)};
      LearnerInput input = InputOf(90);
      input.start.assign(static_cast<size_t>(start), 1);
      FakeWriter writer;
      const auto distill = MakeDistillLearner(settings), plain = MakeNextTokenLearner(start);
      for (Learner* learner : {distill.get(), plain.get()}) {
        const LearnerData data = *learner->Prepare(input, &writer);
        int64_t tokens = 0;
        const int64_t bytes = BytesOf(data, &tokens);
        const LearnerDataSize most = learner->DataMax(input, writer.num_choices());
        EXPECT_LE(bytes, most.bytes) << learner->name() << " " << start << " " << outputs;
        EXPECT_LE(tokens, most.tokens) << learner->name() << " " << start << " " << outputs;
        size_t longest = 0;
        for (const auto* examples : {&data.training, &data.held_out, &data.kept}) {
          for (const TrainingExample& example : *examples) {
            longest = std::max(longest, example.tokens.size());
          }
        }
        EXPECT_LE(static_cast<int32_t>(longest), learner->ExampleTokensMax(20)) << start;
      }
    }
  }
}

// The examples and their order do not depend on how many windows' texts are ordered together. An
// order never has many more texts than are written side by side.
TEST(DistillTest, TextsAreOrderedByAFewWindowsAtATime) {
  class NarrowWriter : public FakeWriter {
   public:
    Result<std::vector<TaughtText>> Write(std::span<const WriteOrder> orders) override {
      most = std::max(most, orders.size());
      return FakeWriter::Write(orders);
    }
    size_t orders_at_once() const override { return 1; }
    size_t most = 0;
  };
  DistillSettings settings = Settings();
  settings.form = std::make_shared<FakeForm>();
  settings.questions = 5;
  const auto learner = MakeDistillLearner(settings);
  FakeWriter wide;
  NarrowWriter narrow;
  const LearnerData all = *learner->Prepare(InputOf(600), &wide);
  const LearnerData few = *learner->Prepare(InputOf(600), &narrow);
  EXPECT_LE(narrow.most, 16u);
  EXPECT_EQ(narrow.orders().size(), wide.orders().size());
  ASSERT_EQ(all.training.size(), few.training.size());
  for (size_t i = 0; i < all.training.size(); ++i) {
    EXPECT_EQ(all.training[i].tokens, few.training[i].tokens);
  }
}

// The adapter learns what the teacher says, also on texts that were held out.
TEST(DistillTest, AnAdapterComesNearerToItsTeacher) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kF32);
  FakeWriter writer;
  const auto learner = MakeDistillLearner(Settings());
  Trainer trainer(model.config, model.weights, LimitsOf(*learner), model.stream);
  const LearnerRates rates = RatesOf(*learner, /*passes=*/6);
  TrainingRun run(trainer, *learner->Prepare(InputOf(30), &writer), rates, {.rank = 4}, 1, "");
  Learn(trainer, run);
  EXPECT_LT(run.scores().after, 0.9 * run.scores().before);
  EXPECT_LT(run.scores().held_out_after, run.scores().held_out_before);
  EXPECT_GT(run.scores().best_step, 0);
}

}  // namespace distill_test
}  // namespace graft
