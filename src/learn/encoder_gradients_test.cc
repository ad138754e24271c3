// The chain of an encoder's virtual tokens and a decoder behind them, against central differences
// of a reference in doubles.
#include <gtest/gtest.h>

#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "learn/reference_model.h"

namespace graft {
namespace encoder_gradients_test {

using testing::LearnModel;
using testing::ReadLora;
using testing::ReferenceLora;
using testing::ReferenceModel;
using testing::Row;
using testing::Rows;
using testing::SourcePath;
using testing::WorstDifference;

constexpr double kErrorMax = 1e-5;
constexpr int32_t kMemoryTokens = 3;
const char* const kModel = "tests/goldens/lora_gradients";

// Two examples. One stands behind the mark and a memory of the text that it says. The other stands
// behind a memory of two texts.
class EncoderGradientsTest : public ::testing::Test {
 protected:
  EncoderGradientsTest()
      : model_(SourcePath(kModel), DType::kF32),
        reference_(SourcePath(kModel), model_.config),
        trainer_(model_.config, model_.weights,
                 {.rows_max = 24, .sequences_max = 2, .rank_max = 3, .logits_rows_max = 2},
                 model_.stream) {
    encoder_ = trainer_.Add({.rank = 3, .scale = 2.0f, .virtual_tokens = kMemoryTokens});
    decoder_ = trainer_.Add({.rank = 3, .scale = 2.0f});
    memories_[0] = trainer_.Add({.virtual_tokens = kMemoryTokens});
    memories_[1] = trainer_.Add({.virtual_tokens = 2 * kMemoryTokens});
    mark_ = trainer_.Add({.virtual_tokens = 1});
    const LoraWeights lora = ReadLora(SourcePath(kModel), model_.config, DType::kF32);
    for (const int32_t index : {encoder_, decoder_}) {
      CHECK(trainer_.lora(index)->Read(lora).ok());
    }
    Random random(8);
    for (float& number : trainer_.lora(encoder_)->parameters()) {
      number *= 0.5f + static_cast<float>(random.Uniform());
    }
    for (const int32_t index : {encoder_, mark_}) {
      for (float& number : trainer_.prompt(index)->parameters()) {
        number = static_cast<float>(random.Uniform() - 0.5);
      }
      trainer_.prompt(index)->Refresh();
    }
    trainer_.lora(encoder_)->Refresh();
    texts_ = {{texts_of_[0], memories_[0], 0},
              {texts_of_[1], memories_[1], 0},
              {texts_of_[2], memories_[1], kMemoryTokens}};
    examples_[0] = Example({4, 8, 15, 16, 2}, {-1, 0, 1, 2, 3, 4}, memories_[0]);
    examples_[0].mark = mark_;
    examples_[1] = Example({9, 1, 7}, {1, 2}, memories_[1]);
  }

  TrainingExample Example(std::vector<int32_t> tokens, std::vector<int32_t> rows, int32_t memory) {
    TrainingExample example;
    example.adapter = decoder_;
    example.prompt = memory;
    for (const int32_t row : rows) {
      example.ids.push_back((row + 9) % 23);
      example.probabilities.push_back(1.0f);
    }
    example.tokens = std::move(tokens);
    example.rows = std::move(rows);
    return example;
  }

  std::vector<double> Numbers(std::span<const float> values) const {
    return {values.begin(), values.end()};
  }

  // Appends what the encoder makes of a text.
  void AppendMemory(const std::vector<int32_t>& text, Rows* rows) const {
    Rows read = reference_.Embed(text);
    const auto n = static_cast<std::ptrdiff_t>(model_.config.hidden_size);
    for (auto at = tokens_.begin(); at != tokens_.end(); at += n) read.emplace_back(at, at + n);
    read = reference_.Forward(read, {.lora = &encoder_lora_});
    rows->insert(rows->end(), read.end() - kMemoryTokens, read.end());
  }

  double Loss() const {
    Rows first, second;
    AppendMemory(texts_of_[0], &first);
    first.emplace_back(mark_row_.begin(), mark_row_.end());
    AppendMemory(texts_of_[1], &second);
    AppendMemory(texts_of_[2], &second);
    return LossBehind(std::move(first), std::move(second));
  }

  // The loss of both examples behind such rows.
  double LossBehind(Rows first, Rows second) const {
    double sum = 0.0;
    size_t num_rows = 0;
    for (Rows* rows : {&first, &second}) {
      const TrainingExample& example = examples_[rows == &first ? 0 : 1];
      const auto before = static_cast<int32_t>(rows->size());
      for (const Row& row : reference_.Embed(example.tokens)) rows->push_back(row);
      sum += reference_.Loss(reference_.Forward(*rows, {.lora = &decoder_lora_}), example, before) *
             static_cast<double>(example.rows.size());
      num_rows += example.rows.size();
    }
    return sum / static_cast<double>(num_rows);
  }

  LearnModel model_;
  ReferenceModel reference_;
  Trainer trainer_;
  int32_t encoder_ = 0, decoder_ = 0, memories_[2] = {}, mark_ = 0;
  const std::vector<int32_t> texts_of_[3] = {
      {4, 8, 15, 16, 2}, {19, 3, 6, 5}, {1, 2, 12, 20, 17, 10}};
  std::vector<EncodedText> texts_;
  TrainingExample examples_[2];
  ReferenceLora encoder_lora_, decoder_lora_;
  std::vector<double> tokens_;  // the encoder's virtual tokens
  std::vector<double> mark_row_;
};

TEST_F(EncoderGradientsTest, AreThoseOfDoubles) {
  trainer_.Encode(encoder_, texts_);
  const TrainingExample* const both[] = {&examples_[0], &examples_[1]};
  const double loss = trainer_.Accumulate(both)[static_cast<size_t>(decoder_)].tokens;
  trainer_.BackwardEncoder(encoder_, texts_);

  TrainedLora& encoder = *trainer_.lora(encoder_);
  TrainedLora& decoder = *trainer_.lora(decoder_);
  encoder_lora_ = {&encoder, Numbers(encoder.parameters())};
  decoder_lora_ = {&decoder, Numbers(decoder.parameters())};
  tokens_ = Numbers(trainer_.prompt(encoder_)->parameters());
  TrainedPrompt& mark = *trainer_.prompt(mark_);
  mark_row_ = Numbers(mark.parameters());
  const auto expected = [&] { return Loss(); };
  EXPECT_NEAR(loss, expected(), 1e-5);
  EXPECT_LT(WorstDifference(encoder.gradients(), encoder_lora_.numbers, 17, expected), kErrorMax);
  EXPECT_LT(WorstDifference(decoder.gradients(), decoder_lora_.numbers, 29, expected), kErrorMax);
  EXPECT_LT(WorstDifference(trainer_.prompt(encoder_)->gradients(), tokens_, 1, expected),
            kErrorMax);
  EXPECT_LT(WorstDifference(mark.gradients(), mark_row_, 1, expected), kErrorMax);
}

// The same for a linear map of vectors in the encoder's place.
TEST_F(EncoderGradientsTest, OfAMapAreThoseOfDoubles) {
  const int32_t n = model_.config.hidden_size;
  const int32_t map = trainer_.Add({.virtual_tokens = n + 1});
  Random random(11);
  std::vector<float> vectors(static_cast<size_t>(3 * kMemoryTokens * n));
  for (std::span<float> numbers : {std::span(vectors), trainer_.prompt(map)->parameters()}) {
    for (float& number : numbers) number = static_cast<float>(random.Uniform() - 0.5);
  }
  trainer_.prompt(map)->Refresh();
  const std::vector<MappedRows> rows = {
      {vectors.data(), kMemoryTokens, memories_[0], 0},
      {vectors.data() + kMemoryTokens * n, 2 * kMemoryTokens, memories_[1], 0}};
  trainer_.Map(map, rows);
  const TrainingExample* const both[] = {&examples_[0], &examples_[1]};
  const double loss = trainer_.Accumulate(both)[static_cast<size_t>(decoder_)].tokens;
  trainer_.BackwardMap(map, rows);

  decoder_lora_ = {trainer_.lora(decoder_), Numbers(trainer_.lora(decoder_)->parameters())};
  mark_row_ = Numbers(trainer_.prompt(mark_)->parameters());
  std::vector<double> numbers = Numbers(trainer_.prompt(map)->parameters());
  const auto append = [&](size_t first, size_t count, Rows* to) {
    for (size_t i = first; i < first + count; ++i) {
      to->emplace_back(numbers.end() - n, numbers.end());
      for (size_t j = 0; j < static_cast<size_t>(n); ++j) {
        const auto x = static_cast<double>(vectors[i * static_cast<size_t>(n) + j]);
        for (size_t column = 0; column < static_cast<size_t>(n); ++column) {
          to->back()[column] += x * numbers[j * static_cast<size_t>(n) + column];
        }
      }
    }
  };
  const auto expected = [&] {
    Rows first, second;
    append(0, kMemoryTokens, &first);
    first.emplace_back(mark_row_.begin(), mark_row_.end());
    append(kMemoryTokens, 2 * kMemoryTokens, &second);
    return LossBehind(std::move(first), std::move(second));
  };
  EXPECT_NEAR(loss, expected(), 1e-5);
  EXPECT_LT(WorstDifference(trainer_.prompt(map)->gradients(), numbers, 7, expected), kErrorMax);
}

}  // namespace encoder_gradients_test
}  // namespace graft
