// A teacher's hidden states on a GPU against the CPU's, and against themselves. Without a GPU the
// tests skip.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "learn/gpu_test_model.h"
#include "learn/training_device.h"

namespace graft {
namespace gpu_states_test {

using testing::ConfigOf;
using testing::DeviceModel;
using testing::ExpectNear;
using testing::ExpectPointsAlong;
using testing::kAll;
using testing::kGpu;
using testing::LimitsOf;
using testing::RandomExample;
using testing::Trained;
using testing::TrainShapes;

class GpuStatesTest : public testing::GpuTest {};

// Adapters that are taught all states, none, and the last one behind virtual tokens.
std::vector<TrainedShape> MixedShapes() {
  return {{.rank = 4, .scale = 0.5f}, {.rank = 20}, {.rank = 12, .virtual_tokens = 5}};
}

std::vector<TrainingExample> MixedExamples(const ModelConfig& config) {
  std::vector<TrainingExample> examples = {RandomExample(70, 0, 1), RandomExample(40, 1, 2),
                                           RandomExample(130, 2, 3), RandomExample(9, 0, 4)};
  Random random(5);
  for (TrainingExample& example : examples) {
    if (example.adapter == 1) continue;
    const int32_t boundaries = example.adapter == 0 ? config.num_layers + 1 : 1;
    example.hidden.resize(static_cast<size_t>(boundaries) * example.rows.size() *
                          static_cast<size_t>(config.hidden_size));
    for (float& state : example.hidden) state = static_cast<float>(random.Normal());
  }
  return examples;
}

void ExpectGradients(const Trained& actual, const Trained& expected, double loss_error,
                     void (*expect)(std::span<const float>, std::span<const float>)) {
  for (size_t i = 0; i < actual.gradients.size(); ++i) {
    SCOPED_TRACE("adapter " + std::to_string(i));
    EXPECT_NEAR(actual.losses[i].tokens, expected.losses[i].tokens, loss_error);
    EXPECT_NEAR(actual.losses[i].hidden, expected.losses[i].hidden, loss_error);
    EXPECT_EQ(actual.losses[i].hidden > 0.0, i != 1);
    expect(actual.gradients[i], expected.gradients[i]);
    if (!expected.prompt_gradients[i].empty()) {
      expect(actual.prompt_gradients[i], expected.prompt_gradients[i]);
    }
  }
}

TEST_F(GpuStatesTest, GradientsInFp32AreTheCpus) {
  const ModelConfig config = ConfigOf(32, 6, 2);
  DeviceModel cpu(config, DType::kF32, {});
  DeviceModel gpu(config, DType::kF32, kGpu);
  const std::vector<TrainingExample> examples = MixedExamples(config);
  ExpectGradients(TrainShapes(gpu, LimitsOf(kAll), MixedShapes(), examples),
                  TrainShapes(cpu, LimitsOf(kAll), MixedShapes(), examples), 1e-5, ExpectNear);
}

TEST_F(GpuStatesTest, GradientsInBf16PointWhereTheCpusDo) {
  const ModelConfig config = ConfigOf(64, 4, 2);
  DeviceModel cpu(config, DType::kBF16, {});
  DeviceModel gpu(config, DType::kBF16, kGpu);
  const std::vector<TrainingExample> examples = MixedExamples(config);
  ExpectGradients(TrainShapes(gpu, LimitsOf(kAll), MixedShapes(), examples),
                  TrainShapes(cpu, LimitsOf(kAll), MixedShapes(), examples), 2e-2,
                  ExpectPointsAlong);
}

void ExpectSame(const Trained& a, const Trained& b, size_t adapter) {
  SCOPED_TRACE("adapter " + std::to_string(adapter));
  EXPECT_EQ(a.losses[adapter].tokens, b.losses[adapter].tokens);
  EXPECT_EQ(a.losses[adapter].hidden, b.losses[adapter].hidden);
  EXPECT_TRUE(a.gradients[adapter] == b.gradients[adapter]);
  EXPECT_TRUE(a.parameters[adapter] == b.parameters[adapter]);
  EXPECT_TRUE(a.prompt_parameters[adapter] == b.prompt_parameters[adapter]);
}

TEST_F(GpuStatesTest, TogetherIsAloneAndComputedAgainIsKept) {
  DeviceModel model(ConfigOf(64, 4, 2), DType::kBF16, kGpu);
  const std::vector<TrainingExample> examples = MixedExamples(model.config);
  const Trained together = TrainShapes(model, LimitsOf(kAll), MixedShapes(), examples, 2);
  const Trained again = TrainShapes(model, LimitsOf(0), MixedShapes(), examples, 2);
  for (int32_t adapter = 0; adapter < 3; ++adapter) {
    std::vector<TrainingExample> own;
    for (const TrainingExample& example : examples) {
      if (example.adapter == adapter) own.push_back(example);
    }
    const auto i = static_cast<size_t>(adapter);
    ExpectSame(TrainShapes(model, LimitsOf(kAll), MixedShapes(), own, 2), together, i);
    ExpectSame(again, together, i);
  }
}

// What a teacher has of rows behind its prompt: near to the CPU's, and at no distance from the base
// itself with that prompt.
TEST_F(GpuStatesTest, ATeachersAreTheBasesOwn) {
  DeviceModel cpu(ConfigOf(32, 6, 2), DType::kF32, {});
  DeviceModel gpu(ConfigOf(32, 6, 2), DType::kF32, kGpu);
  for (const bool all_layers : {false, true}) {
    TrainingExample taught = RandomExample(60, 0, 1);
    taught.teacher_prompt = RandomExample(75, 0, 2).tokens;
    taught.num_replaced = 3;
    taught.rows.erase(taught.rows.begin(), taught.rows.begin() + 3);
    taught.ids.erase(taught.ids.begin(), taught.ids.begin() + 3);
    taught.probabilities.resize(taught.rows.size());
    TrainingExample expected = taught;
    TrainingLimits limits = LimitsOf(kAll);
    limits.logits_rows_max = 25;
    Trainer on_cpu(cpu.config, cpu.weights, limits, cpu.owned.get());
    Trainer on_gpu(gpu.config, gpu.weights, limits, gpu.owned.get());
    on_cpu.TakeTeacherStates({&expected, 1}, all_layers);
    on_gpu.TakeTeacherStates({&taught, 1}, all_layers);
    ExpectNear(taught.hidden, expected.hidden);
    TrainingExample whole = taught;
    whole.tokens.erase(whole.tokens.begin(), whole.tokens.begin() + whole.num_replaced);
    whole.tokens.insert(whole.tokens.begin(), whole.teacher_prompt.begin(),
                        whole.teacher_prompt.end());
    for (int32_t& row : whole.rows) row += 75 - whole.num_replaced;
    on_gpu.Add(1, 1.0f);
    const TrainingExample* const in_context[] = {&whole};
    const TrainingExample* const without[] = {&taught};
    EXPECT_EQ(on_gpu.EvaluateWithout(in_context)[0].hidden, 0.0);
    EXPECT_GT(on_gpu.EvaluateWithout(without)[0].hidden, 1e-3);
  }
}

}  // namespace gpu_states_test
}  // namespace graft
