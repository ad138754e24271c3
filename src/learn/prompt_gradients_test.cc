// Gradients of virtual tokens, and of LoRA beside them, against central differences of a reference
// in doubles; and what virtual tokens compute against the tokens themselves.
#include <gtest/gtest.h>

#include <numeric>

#include "base/random.h"
#include "learn/reference_model.h"
#include "learn/training_walker.h"

namespace graft {
namespace prompt_gradients_test {

using testing::LearnModel;
using testing::ReadLora;
using testing::ReferenceContext;
using testing::ReferenceLora;
using testing::ReferenceModel;
using testing::Rows;
using testing::SourcePath;
using testing::WorstDifference;

constexpr double kErrorMax = 1e-5;

// A golden model with projections that lie apart, and an adapter of it.
struct ModelCase {
  const char* model;
  const char* adapter;
  int32_t rank;
  double query_beta = 0.0;  // RopeConfig's, beyond the first two tokens
};
// Llama; the same with queries that grow with their positions, as Ministral 3's do; learned
// positions, LayerNorm, an MLP without a gate and windows; the same in parallel, of heads that turn
// in part.
const ModelCase kModels[] = {{"lora_gradients", "lora_gradients", 3},
                             {"lora_gradients", "lora_gradients", 3, 0.7},
                             {"gpt-neo", "gradients/gpt-neo", 2},
                             {"phi", "gradients/phi", 2}};

std::string FolderOf(const char* name) { return SourcePath(std::string("tests/goldens/") + name); }

std::vector<double> Doubles(std::span<const float> values) {
  return {values.begin(), values.end()};
}

TrainingExample Example(std::vector<int32_t> tokens, std::vector<int32_t> rows) {
  TrainingExample example;
  example.tokens = std::move(tokens);
  example.num_choices = 2;
  for (const int32_t row : rows) {
    example.ids.insert(example.ids.end(), {(row + 7) % 23, (row + 12) % 23});
    example.probabilities.insert(example.probabilities.end(), {0.6f, 0.25f});
  }
  example.rows = std::move(rows);
  return example;
}

// A prompt of random numbers before two sequences, with LoRA on all rows and, in one of two tries,
// a second LoRA that learns nothing.
class PromptGradientsTest : public ::testing::TestWithParam<ModelCase> {
 protected:
  PromptGradientsTest()
      : model_(FolderOf(GetParam().model), DType::kF32),
        reference_(FolderOf(GetParam().model), Scaled(model_.config)),
        examples_({Example({1, 5, 9, 2, 7, 11}, {0, 2, 4}), Example({3, 8, 20}, {1, 2})}) {}

  static const ModelConfig& Scaled(ModelConfig& config) {
    if (GetParam().query_beta == 0.0) return config;
    config.ropes[0].original_tokens = 2;
    config.ropes[0].query_beta = GetParam().query_beta;
    return config;
  }

  void Check(VirtualTokenKind kind, bool with_document) {
    Trainer trainer(model_.config, model_.weights,
                    {.rows_max = 32,
                     .sequences_max = 2,
                     .prefix_tokens_max = 3,
                     .rank_max = 3,
                     .logits_rows_max = 2},
                    model_.stream);
    const int32_t index =
        trainer.Add({.rank = GetParam().rank, .scale = 2.0f, .virtual_tokens = 3, .kind = kind});
    TrainedLora& lora = *trainer.lora(index);
    const LoraWeights read = ReadLora(FolderOf(GetParam().adapter), model_.config, DType::kF32);
    ASSERT_TRUE(lora.Read(read).ok());
    const int32_t document = trainer.Add({.rank = 2, .scale = 0.5f, .is_frozen = true});
    Random random(4);
    for (const std::span<float> values :
         {trainer.prompt(index)->parameters(), trainer.lora(document)->parameters()}) {
      for (float& value : values) value = static_cast<float>(random.Uniform() - 0.5);
    }
    trainer.prompt(index)->Refresh();
    trainer.lora(document)->Refresh();
    for (TrainingExample& example : examples_) example.document = with_document ? document : -1;
    const double loss = trainer.Accumulate(testing::PointersTo(examples_))[0].tokens;

    ReferenceLora learned{&lora, Doubles(lora.parameters())};
    const ReferenceLora frozen{trainer.lora(document),
                               Doubles(trainer.lora(document)->parameters())};
    std::vector<double> prompt = Doubles(trainer.prompt(index)->parameters());
    const auto expected = [&] {
      return Loss(kind, prompt, learned, with_document ? &frozen : nullptr);
    };
    EXPECT_NEAR(loss, expected(), 1e-5);
    // Some twenty-five of each, spread over all matrices and tokens.
    const auto worst = [&](std::span<const float> gradients, std::vector<double>& numbers) {
      return WorstDifference(gradients, numbers, numbers.size() / 25 | 1, expected);
    };
    EXPECT_LT(worst(lora.gradients(), learned.numbers), kErrorMax);
    EXPECT_LT(worst(trainer.prompt(index)->gradients(), prompt), kErrorMax);
    for (const float gradient : trainer.lora(document)->gradients()) EXPECT_EQ(gradient, 0.0f);
  }

  // The mean over the rows of both sequences.
  double Loss(VirtualTokenKind kind, const std::vector<double>& prompt, const ReferenceLora& lora,
              const ReferenceLora* document) const {
    double sum = 0.0;
    size_t num_rows = 0;
    for (const TrainingExample& example : examples_) {
      ReferenceContext context{.lora = &lora, .second = document};
      Rows rows;
      if (kind == VirtualTokenKind::kKeysValues) {
        context.keys_values = prompt;
      } else {
        const auto n = static_cast<std::ptrdiff_t>(model_.config.hidden_size);
        for (auto at = prompt.begin(); at != prompt.end(); at += n) rows.emplace_back(at, at + n);
      }
      const auto before = static_cast<int32_t>(rows.size());
      for (const auto& row : reference_.Embed(example.tokens)) rows.push_back(row);
      sum += reference_.Loss(reference_.Forward(rows, context), example, before) *
             static_cast<double>(example.rows.size());
      num_rows += example.rows.size();
    }
    return sum / static_cast<double>(num_rows);
  }

  LearnModel model_;
  ReferenceModel reference_;
  std::vector<TrainingExample> examples_;
};

TEST_P(PromptGradientsTest, OfKeysAndValuesAreThoseOfDoubles) {
  Check(VirtualTokenKind::kKeysValues, false);
  Check(VirtualTokenKind::kKeysValues, true);
}

TEST_P(PromptGradientsTest, OfEmbeddingsAreThoseOfDoubles) {
  examples_[0].rows[0] = -1;  // the last of them says the first token
  Check(VirtualTokenKind::kEmbedding, false);
  Check(VirtualTokenKind::kEmbedding, true);
}

INSTANTIATE_TEST_SUITE_P(Models, PromptGradientsTest, ::testing::ValuesIn(kModels));

std::vector<int32_t> RandomTokens(size_t n, uint64_t seed) {
  Random random(seed);
  std::vector<int32_t> tokens(n);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random.Below(250));
  return tokens;
}

std::vector<float> LogitsFrom(int32_t first, LearnModel& model, TrainingDevice& device,
                              const TrainingSequence& sequence) {
  const TrainingBatch batch({&sequence, 1}, device.page_tokens());
  std::vector<int32_t> rows(static_cast<size_t>(batch.num_rows() - first));
  std::iota(rows.begin(), rows.end(), first);
  return testing::LogitsOf(model, device, batch, rows);
}

// Untrained, a prefix is its document, and embeddings are their tokens, also where all rows are
// scaled or positions are added: the same logits, bit for bit.
TEST(PromptTest, OfTheDocumentsOwnIsTheDocumentInContext) {
  for (const char* name :
       {"llama", "qwen2", "llama3-rope", "granite", "gpt2", "gpt-neox", "phi", "glm4"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(name);
      LearnModel model(SourcePath(std::string("tests/goldens/") + name), dtype);
      const TrainingLimits limits = {
          .rows_max = 64, .sequences_max = 1, .prefix_tokens_max = 37, .rank_max = 1};
      Trainer trainer(model.config, model.weights, limits, model.stream);
      TrainingWalker walker(model.config, model.weights, limits, model.stream);
      const std::vector<int32_t> document = RandomTokens(37, 1), question = RandomTokens(21, 2);
      std::vector<int32_t> whole = document;
      whole.insert(whole.end(), question.begin(), question.end());
      const std::vector<float> in_context = LogitsFrom(37, model, walker, {.tokens = whole});
      for (const VirtualTokenKind kind :
           {VirtualTokenKind::kKeysValues, VirtualTokenKind::kEmbedding}) {
        const int32_t index = trainer.Add({.virtual_tokens = 37, .kind = kind});
        trainer.BeginPrompt(index, document);
        walker.Add({.prompt = trainer.prompt(index)});
        const TrainingSequence asked = {.tokens = question, .prompt = {index, kind, 37}};
        EXPECT_EQ(LogitsFrom(asked.num_before(), model, walker, asked), in_context);
      }
    }
  }
}

// The first position stays what it was; all others move.
TEST(PromptTest, TheFirstKeysAndValuesNeverMove) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kF32);
  Trainer trainer(model.config, model.weights,
                  {.rows_max = 64, .sequences_max = 1, .prefix_tokens_max = 4, .rank_max = 1},
                  model.stream);
  const int32_t index = trainer.Add({.virtual_tokens = 4, .kind = VirtualTokenKind::kKeysValues});
  trainer.BeginPrompt(index, RandomTokens(9, 1));
  TrainedPrompt& prompt = *trainer.prompt(index);
  const std::vector<float> before(prompt.parameters().begin(), prompt.parameters().end());
  const TrainingExample example = NextTokenExample(RandomTokens(20, 2), index);
  const TrainingExample* const one[] = {&example};
  trainer.Accumulate(one);
  const Trainer::Update update{index, {}, {.learning_rate = 1e-2f, .weight_decay = 0.1f}};
  trainer.Apply({&update, 1});
  for (size_t i = 0; i < before.size(); ++i) {
    const bool is_first = i < static_cast<size_t>(prompt.columns());
    EXPECT_EQ(prompt.parameters()[i] == before[i], is_first) << i;
  }
}

// Three updates of these adapters together: LoRA alone, embeddings with LoRA, keys and values.
std::vector<std::vector<float>> TrainTogether(LearnModel& model, std::vector<int32_t> adapters,
                                              int64_t activation_bytes) {
  Trainer trainer(model.config, model.weights,
                  {.rows_max = 128,
                   .sequences_max = 6,
                   .prefix_tokens_max = 5,
                   .rank_max = 4,
                   .activation_bytes_max = activation_bytes},
                  model.stream);
  trainer.Add({.rank = 4});
  trainer.Add({.rank = 3, .virtual_tokens = 4});
  trainer.Add({.virtual_tokens = 5, .kind = VirtualTokenKind::kKeysValues});
  for (const int32_t index : {0, 1}) trainer.lora(index)->Initialize(7);
  for (const int32_t index : {1, 2}) trainer.BeginPrompt(index, RandomTokens(9, 3));
  std::vector<TrainingExample> examples;
  std::vector<Trainer::Update> updates;
  for (const uint64_t seed : {1, 2}) {
    for (const int32_t adapter : adapters) {
      const auto size = static_cast<size_t>(8 + 3 * adapter);
      examples.push_back(NextTokenExample(
          RandomTokens(size, 10 * seed + static_cast<uint64_t>(adapter)), adapter));
      if (seed == 1)
        updates.push_back({adapter, {.learning_rate = 1e-2f}, {.learning_rate = 1e-2f}});
    }
  }
  for (int step = 0; step < 3; ++step) {
    trainer.Accumulate(testing::PointersTo(examples));
    trainer.Apply(updates);
  }
  std::vector<std::vector<float>> numbers(3);
  for (int32_t index = 0; index < 3; ++index) {
    std::vector<float>& all = numbers[static_cast<size_t>(index)];
    if (TrainedLora* lora = trainer.lora(index)) {
      all.insert(all.end(), lora->parameters().begin(), lora->parameters().end());
    }
    if (TrainedPrompt* prompt = trainer.prompt(index)) {
      all.insert(all.end(), prompt->parameters().begin(), prompt->parameters().end());
    }
  }
  return numbers;
}

TEST(PromptTest, TogetherIsAloneAndComputedAgainIsKept) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kBF16);
  const auto together = TrainTogether(model, {2, 0, 1}, 0);
  EXPECT_EQ(together, TrainTogether(model, {0, 1, 2}, 1 << 30));
  for (const int32_t index : {0, 1, 2}) {
    const auto at = static_cast<size_t>(index);
    EXPECT_EQ(TrainTogether(model, {index}, 0)[at], together[at]) << index;
  }
}

}  // namespace prompt_gradients_test
}  // namespace graft
