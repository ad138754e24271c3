// Virtual tokens that learn: a GPU against the CPU, against the tokens themselves, and against
// itself. Without a GPU the tests skip.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "learn/device_masters.h"
#include "learn/gpu_test_model.h"
#include "learn/training_device.h"
#include "tensor/allocations.h"

namespace graft {
namespace gpu_prompt_test {

using testing::ConfigOf;
using testing::DeviceModel;
using testing::ExpectNear;
using testing::ExpectPointsAlong;
using testing::FamilyConfigs;
using testing::Fill;
using testing::kAll;
using testing::kGpu;
using testing::LimitsOf;
using testing::NameOf;
using testing::PointersTo;
using testing::RandomExample;
using testing::Trained;
using testing::TrainShapes;

class GpuPromptTest : public testing::GpuTest {};

constexpr auto kKeysValues = VirtualTokenKind::kKeysValues;
constexpr auto kEmbedding = VirtualTokenKind::kEmbedding;

// Embeddings with LoRA, LoRA alone, each kind alone, and keys and values with LoRA.
std::vector<TrainedShape> MixedShapes() {
  return {{.rank = 4, .scale = 0.5f, .virtual_tokens = 5},
          {.rank = 20, .scale = 1.5f},
          {.virtual_tokens = 33},
          {.virtual_tokens = 35, .kind = kKeysValues},
          {.rank = 12, .virtual_tokens = 3, .kind = kKeysValues}};
}

// The list mixes adapters with one sequence and with several. One example looks at a row of its
// virtual tokens.
std::vector<TrainingExample> MixedExamples() {
  std::vector<TrainingExample> examples = {RandomExample(70, 2, 1), RandomExample(3, 0, 2),
                                           RandomExample(64, 1, 4), RandomExample(97, 0, 3),
                                           RandomExample(2, 2, 5),  RandomExample(71, 3, 6),
                                           RandomExample(9, 4, 7),  RandomExample(40, 3, 8)};
  TrainingExample& first = examples[1];
  first.rows.insert(first.rows.begin(), -1);
  first.ids.insert(first.ids.begin(), first.tokens[0]);
  first.probabilities.push_back(1.0f);
  return examples;
}

// Compares every gradient by `expect`: LoRA's as a whole, and the virtual tokens'.
template <typename Expect>
void ExpectGradients(const Trained& actual, const Trained& expected, double loss_error,
                     const Expect& expect) {
  for (size_t i = 0; i < actual.gradients.size(); ++i) {
    SCOPED_TRACE("adapter " + std::to_string(i));
    EXPECT_EQ(actual.losses[i].num_rows, expected.losses[i].num_rows);
    EXPECT_NEAR(actual.losses[i].tokens, expected.losses[i].tokens, loss_error);
    if (!expected.gradients[i].empty()) expect(actual.gradients[i], expected.gradients[i]);
    if (expected.prompt_gradients[i].empty()) continue;
    SCOPED_TRACE("virtual tokens");
    expect(actual.prompt_gradients[i], expected.prompt_gradients[i]);
  }
}

void ExpectSame(const Trained& a, const Trained& b, size_t adapter) {
  SCOPED_TRACE("adapter " + std::to_string(adapter));
  EXPECT_EQ(a.losses[adapter].tokens, b.losses[adapter].tokens);
  EXPECT_TRUE(a.gradients[adapter] == b.gradients[adapter]);
  EXPECT_TRUE(a.parameters[adapter] == b.parameters[adapter]);
  EXPECT_TRUE(a.prompt_gradients[adapter] == b.prompt_gradients[adapter]);
  EXPECT_TRUE(a.prompt_parameters[adapter] == b.prompt_parameters[adapter]);
}

TEST_F(GpuPromptTest, GradientsInFp32AreTheCpus) {
  for (const ModelConfig& config : FamilyConfigs({ConfigOf(32, 6, 2)})) {
    SCOPED_TRACE(NameOf(config));
    DeviceModel cpu(config, DType::kF32, {});
    DeviceModel gpu(config, DType::kF32, kGpu);
    const Trained expected = TrainShapes(cpu, LimitsOf(kAll), MixedShapes(), MixedExamples());
    const Trained actual = TrainShapes(gpu, LimitsOf(kAll), MixedShapes(), MixedExamples());
    ExpectGradients(actual, expected, 1e-5, [](const auto& a, const auto& e) { ExpectNear(a, e); });
  }
}

TEST_F(GpuPromptTest, GradientsInBf16PointWhereTheCpusDo) {
  for (const ModelConfig& config : FamilyConfigs({ConfigOf(64, 4, 2), ConfigOf(128, 3, 1)})) {
    SCOPED_TRACE(NameOf(config));
    DeviceModel cpu(config, DType::kBF16, {});
    DeviceModel gpu(config, DType::kBF16, kGpu);
    const Trained expected = TrainShapes(cpu, LimitsOf(kAll), MixedShapes(), MixedExamples());
    const Trained actual = TrainShapes(gpu, LimitsOf(kAll), MixedShapes(), MixedExamples());
    ExpectGradients(actual, expected, 2e-2,
                    [](const auto& a, const auto& e) { ExpectPointsAlong(a, e); });
  }
}

// With the clip, the rates and the moments three steps end where the CPU's do.
TEST_F(GpuPromptTest, StepsInFp32AreTheCpus) {
  for (const ModelConfig& config : FamilyConfigs({ConfigOf(32, 6, 2)})) {
    SCOPED_TRACE(NameOf(config));
    DeviceModel cpu(config, DType::kF32, {});
    DeviceModel gpu(config, DType::kF32, kGpu);
    const Trained expected = TrainShapes(cpu, LimitsOf(kAll), MixedShapes(), MixedExamples(), 3);
    const Trained actual = TrainShapes(gpu, LimitsOf(kAll), MixedShapes(), MixedExamples(), 3);
    for (size_t i = 0; i < expected.losses.size(); ++i) {
      EXPECT_NEAR(actual.losses[i].tokens, expected.losses[i].tokens, 1e-3);
      for (size_t j = 0; j < expected.prompt_parameters[i].size(); ++j) {
        ASSERT_NEAR(actual.prompt_parameters[i][j], expected.prompt_parameters[i][j], 5e-3)
            << "adapter " << i << ", number " << j;
      }
    }
  }
}

TEST_F(GpuPromptTest, AdaptersTogetherAreAdaptersAlone) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const ModelConfig& config : FamilyConfigs({ConfigOf(64, 4, 2)})) {
      SCOPED_TRACE(NameOf(config));
      DeviceModel model(config, dtype, kGpu);
      const std::vector<TrainingExample> examples = MixedExamples();
      const Trained together = TrainShapes(model, LimitsOf(kAll), MixedShapes(), examples, 2);
      for (int32_t adapter = 0; adapter < 5; ++adapter) {
        std::vector<TrainingExample> own;
        for (const TrainingExample& example : examples) {
          if (example.adapter == adapter) own.push_back(example);
        }
        const Trained alone = TrainShapes(model, LimitsOf(kAll), MixedShapes(), own, 2);
        ExpectSame(alone, together, static_cast<size_t>(adapter));
      }
    }
  }
}

TEST_F(GpuPromptTest, ComputingAndTransposingAgainChangeNothing) {
  for (const ModelConfig& config : FamilyConfigs({ConfigOf(128, 2, 1)})) {
    SCOPED_TRACE(NameOf(config));
    DeviceModel model(config, DType::kBF16, kGpu);
    const int64_t layer = LayerActivationBytes(model.config, DType::kBF16, kGpu, 512);
    const Trained kept =
        TrainShapes(model, LimitsOf(kAll, kAll), MixedShapes(), MixedExamples(), 2);
    for (const int64_t layers : {0, 2}) {
      const Trained again =
          TrainShapes(model, LimitsOf(layers * layer), MixedShapes(), MixedExamples(), 2);
      for (size_t i = 0; i < 5; ++i) ExpectSame(again, kept, i);
    }
  }
}

// Untrained virtual tokens are the tokens that they begin with: the losses have the same bits.
TEST_F(GpuPromptTest, OfTheDocumentsOwnIsTheDocumentInContext) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    DeviceModel model(ConfigOf(64, 4, 2), dtype, kGpu);
    Trainer trainer(model.config, model.weights, LimitsOf(kAll), model.owned.get());
    const std::vector<int32_t> document = RandomExample(37, 0, 8).tokens;
    for (const VirtualTokenKind kind : {kEmbedding, kKeysValues}) {
      SCOPED_TRACE(static_cast<int>(kind));
      const int32_t adapter = trainer.Add({.virtual_tokens = 37, .kind = kind});
      trainer.BeginPrompt(adapter, document);
      const TrainingExample asked = RandomExample(50, adapter, 9);
      TrainingExample whole = asked;
      whole.tokens.insert(whole.tokens.begin(), document.begin(), document.end());
      for (int32_t& row : whole.rows) row += 37;
      const TrainingExample* const in_context[] = {&whole};
      const TrainingExample* const behind[] = {&asked};
      const auto at = static_cast<size_t>(adapter);
      const double loss = trainer.Evaluate(behind)[at].tokens;
      EXPECT_EQ(loss, trainer.EvaluateWithout(in_context)[at].tokens);
      EXPECT_NE(loss, trainer.EvaluateWithout(behind)[at].tokens);
    }
  }
}

// The first position never moves, and all others do.
TEST_F(GpuPromptTest, TheFirstKeysAndValuesNeverMove) {
  DeviceModel model(ConfigOf(64, 4, 2), DType::kBF16, kGpu);
  Trainer trainer(model.config, model.weights, LimitsOf(kAll), model.owned.get());
  const int32_t index = trainer.Add({.virtual_tokens = 6, .kind = kKeysValues});
  trainer.BeginPrompt(index, RandomExample(9, 0, 1).tokens);
  const std::span<float> now = trainer.prompt(index)->parameters();
  const std::vector<float> before(now.begin(), now.end());
  const TrainingExample example = RandomExample(20, index, 2);
  const TrainingExample* const one[] = {&example};
  trainer.Accumulate(one);
  const Trainer::Update update{index, {}, {.learning_rate = 1e-2f, .weight_decay = 0.1f}};
  trainer.Apply({&update, 1});
  TrainedPrompt& prompt = *trainer.prompt(index);
  for (size_t i = 0; i < before.size(); ++i) {
    const bool is_first = i < static_cast<size_t>(prompt.columns());
    ASSERT_EQ(prompt.parameters()[i] == before[i], is_first) << i;
  }
}

// A run that takes its numbers from the host's memory, as from a checkpoint, has the same bits.
TEST_F(GpuPromptTest, GoesOnFromTheHostsNumbers) {
  DeviceModel model(ConfigOf(64, 4, 2), DType::kBF16, kGpu);
  const std::vector<TrainingExample> examples = {RandomExample(70, 0, 1)};
  const Trainer::Update update{0, {}, {.learning_rate = 1e-2f}};
  const TrainedShape shape = {.rank = 16, .virtual_tokens = 12};
  const auto step = [&](Trainer& trainer) {
    trainer.Accumulate(PointersTo(examples));
    trainer.Apply({&update, 1});
  };
  Trainer whole(model.config, model.weights, LimitsOf(kAll), model.owned.get());
  Fill(*whole.lora(whole.Add(shape)), 1);
  whole.BeginPrompt(0, RandomExample(40, 0, 7).tokens);
  step(whole);
  step(whole);
  Trainer resumed(model.config, model.weights, LimitsOf(kAll), model.owned.get());
  resumed.Add(shape);
  const auto copy = [](auto& from, auto& to) {
    std::ranges::copy(from.parameters(), to.parameters().begin());
    std::ranges::copy(from.first_moments(), to.first_moments().begin());
    std::ranges::copy(from.second_moments(), to.second_moments().begin());
    to.Refresh();
  };
  copy(*whole.lora(0), *resumed.lora(0));
  copy(*whole.prompt(0), *resumed.prompt(0));
  resumed.set_num_updates(0, 2);
  step(whole);
  step(resumed);
  EXPECT_TRUE(std::ranges::equal(whole.lora(0)->parameters(), resumed.lora(0)->parameters()));
  EXPECT_TRUE(std::ranges::equal(whole.prompt(0)->parameters(), resumed.prompt(0)->parameters()));
  EXPECT_EQ(whole.Evaluate(PointersTo(examples))[0].tokens,
            resumed.Evaluate(PointersTo(examples))[0].tokens);
}

TEST_F(GpuPromptTest, TheSumIsWhatIsTaken) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const ModelConfig& config : FamilyConfigs({ConfigOf(64, 4, 2)})) {
      SCOPED_TRACE(NameOf(config));
      DeviceModel model(config, dtype, kGpu);
      for (const VirtualTokenKind kind : {kEmbedding, kKeysValues}) {
        TrainedPrompt host(model.config, kind, 7, dtype, kGpu);
        const int64_t before = AllocatedBytes(kGpu);
        const DeviceMasters prompt(host, model.owned.get());
        EXPECT_EQ(AllocatedBytes(kGpu) - before,
                  DevicePromptBytes(model.config, kind, 7, dtype, kGpu));
      }
    }
  }
}

}  // namespace gpu_prompt_test
}  // namespace graft
