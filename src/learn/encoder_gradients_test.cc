// The chain of an encoder's virtual tokens and a decoder behind them, against central differences
// of a reference in doubles.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "learn/memory_form.h"
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

// Two examples. One stands behind a memory of the text that it says, the last token of which says
// its first. The other stands behind a memory of two texts.
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
    const LoraWeights lora = ReadLora(SourcePath(kModel), model_.config, DType::kF32);
    for (const int32_t index : {encoder_, decoder_}) {
      CHECK(trainer_.lora(index)->Read(lora).ok());
    }
    Random random(8);
    for (float& number : trainer_.lora(encoder_)->parameters()) {
      number *= 0.5f + static_cast<float>(random.Uniform());
    }
    for (float& number : trainer_.prompt(encoder_)->parameters()) {
      number = static_cast<float>(random.Uniform() - 0.5);
    }
    trainer_.prompt(encoder_)->Refresh();
    trainer_.lora(encoder_)->Refresh();
    texts_ = {{texts_of_[0], memories_[0], 0},
              {texts_of_[1], memories_[1], 0},
              {texts_of_[2], memories_[1], kMemoryTokens}};
    examples_[0] = Example({4, 8, 15, 16, 2}, {-1, 0, 1, 2, 3, 4}, memories_[0]);
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
  int32_t encoder_ = 0, decoder_ = 0, memories_[2] = {};
  const std::vector<int32_t> texts_of_[3] = {
      {4, 8, 15, 16, 2}, {19, 3, 6, 5}, {1, 2, 12, 20, 17, 10}};
  std::vector<EncodedText> texts_;
  TrainingExample examples_[2];
  ReferenceLora encoder_lora_, decoder_lora_;
  std::vector<double> tokens_;  // the encoder's virtual tokens
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
  const auto expected = [&] { return Loss(); };
  EXPECT_NEAR(loss, expected(), 1e-5);
  EXPECT_LT(WorstDifference(encoder.gradients(), encoder_lora_.numbers, 17, expected), kErrorMax);
  EXPECT_LT(WorstDifference(decoder.gradients(), decoder_lora_.numbers, 29, expected), kErrorMax);
  EXPECT_LT(WorstDifference(trainer_.prompt(encoder_)->gradients(), tokens_, 1, expected),
            kErrorMax);
}

// An encoder with a memory of keys and values of its rows: of some of the text's tokens, turned to
// other places, or of virtual tokens behind it. Two sequences stand behind one memory, of which the
// second reads less.
class ReadGradientsTest : public EncoderGradientsTest,
                          public ::testing::WithParamInterface<MemoryRows> {};

TEST_P(ReadGradientsTest, AreThoseOfDoubles) {
  const bool is_between = GetParam() == MemoryRows::kBetween;
  const bool has_tokens = GetParam() == MemoryRows::kBehind || is_between;
  const int32_t num_tokens = is_between ? 1 : has_tokens ? kMemoryTokens : 0;
  Trainer trainer(model_.config, model_.weights,
                  {.rows_max = 24,
                   .sequences_max = 2,
                   .prefix_tokens_max = 5,
                   .rank_max = 3,
                   .logits_rows_max = 2},
                  model_.stream);
  const int32_t encoder = trainer.Add({.rank = 3, .scale = 2.0f, .virtual_tokens = num_tokens});
  const int32_t decoder = trainer.Add({.rank = 3, .scale = 2.0f});
  const int32_t memory = trainer.Add({.virtual_tokens = 5, .kind = VirtualTokenKind::kKeysValues});
  const LoraWeights lora = ReadLora(SourcePath(kModel), model_.config, DType::kF32);
  for (const int32_t index : {encoder, decoder}) CHECK(trainer.lora(index)->Read(lora).ok());
  Random random(8);
  for (float& number : trainer.lora(encoder)->parameters()) {
    number *= 0.5f + static_cast<float>(random.Uniform());
  }
  trainer.lora(encoder)->Refresh();
  if (has_tokens) {
    for (float& number : trainer.prompt(encoder)->parameters()) {
      number = static_cast<float>(random.Uniform() - 0.5);
    }
    trainer.prompt(encoder)->Refresh();
  }
  // Rows of two texts: of tokens, of what is behind them, or of what is between them.
  const int32_t behind = GetParam() == MemoryRows::kBehind ? 4 : 0;
  std::vector<int32_t> read[2] = {texts_of_[0], texts_of_[1]};
  if (is_between) {
    for (const int32_t place : {3, 1}) read[0].insert(read[0].begin() + place, kVirtualToken);
    read[1].insert(read[1].begin() + 2, kVirtualToken);
  }
  const std::vector<ReadText> texts = {
      {read[0], memory, {{0, 0, 0}, {1 + behind, 1, -7}, {3 + behind, 2, 2}}, is_between},
      {read[1], memory, {{2 + behind, 4, 11}, {1, 3, 1}}, is_between}};
  examples_[0] = Example({4, 8, 15, 16, 2}, {0, 1, 2, 3, 4}, memory);
  examples_[1] = Example({9, 1, 7}, {1, 2}, memory);
  for (TrainingExample& example : examples_) example.adapter = decoder;

  trainer.EncodeKeysValues(encoder, texts);
  const TrainingExample* const both[] = {&examples_[0], &examples_[1]};
  const double loss = trainer.Accumulate(both)[static_cast<size_t>(decoder)].tokens;
  trainer.BackwardKeysValues(encoder, texts);

  encoder_lora_ = {trainer.lora(encoder), Numbers(trainer.lora(encoder)->parameters())};
  decoder_lora_ = {trainer.lora(decoder), Numbers(trainer.lora(decoder)->parameters())};
  if (has_tokens) tokens_ = Numbers(trainer.prompt(encoder)->parameters());
  const auto n = static_cast<std::ptrdiff_t>(model_.config.hidden_size);
  const auto expected = [&] {
    std::vector<double> all;
    for (const ReadText& text : texts) {
      Rows rows;
      for (const int32_t token : text.tokens) {
        rows.push_back(token == kVirtualToken ? Row(tokens_.begin(), tokens_.end())
                                              : reference_.Embed({token})[0]);
      }
      for (auto at = tokens_.begin(); at != tokens_.end() && !is_between; at += n) {
        rows.emplace_back(at, at + n);
      }
      std::vector<double> taken;
      testing::ReferenceContext context{.lora = &encoder_lora_, .taken = &taken};
      std::vector<ReadText::Row> in_order = text.rows;
      std::ranges::sort(in_order, {}, &ReadText::Row::token);
      for (const ReadText::Row& row : in_order) context.takes.push_back({row.row, row.position});
      reference_.Forward(rows, context);
      all.insert(all.end(), taken.begin(), taken.end());
    }
    double sum = 0.0;
    size_t num_rows = 0;
    for (const TrainingExample& example : examples_) {
      const testing::ReferenceContext context{.lora = &decoder_lora_, .keys_values = all};
      sum += reference_.Loss(reference_.Forward(reference_.Embed(example.tokens), context), example,
                             0) *
             static_cast<double>(example.rows.size());
      num_rows += example.rows.size();
    }
    return sum / static_cast<double>(num_rows);
  };
  // The CPU rounds keys and values to the pages' dtype, as those of every row.
  EXPECT_NEAR(loss, expected(), 1e-5);
  EXPECT_LT(
      WorstDifference(trainer.lora(encoder)->gradients(), encoder_lora_.numbers, 17, expected),
      kErrorMax);
  EXPECT_LT(
      WorstDifference(trainer.lora(decoder)->gradients(), decoder_lora_.numbers, 29, expected),
      kErrorMax);
  if (!has_tokens) return;
  EXPECT_LT(WorstDifference(trainer.prompt(encoder)->gradients(), tokens_, 1, expected), kErrorMax);
}

INSTANTIATE_TEST_SUITE_P(OfEachKind, ReadGradientsTest,
                         ::testing::Values(MemoryRows::kPieces, MemoryRows::kBetween,
                                           MemoryRows::kBehind));

}  // namespace encoder_gradients_test
}  // namespace graft
