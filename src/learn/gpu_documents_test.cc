// Frozen adapters of documents beside those that learn: a GPU against the CPU, and against itself.
// Without a GPU the tests skip.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "learn/gpu_test_model.h"
#include "learn/training_device.h"

namespace graft {
namespace gpu_documents_test {

using testing::ConfigOf;
using testing::DeviceModel;
using testing::ExpectNear;
using testing::ExpectPointsAlong;
using testing::FamilyConfigs;
using testing::kAll;
using testing::kGpu;
using testing::LimitsOf;
using testing::NameOf;
using testing::RandomExample;
using testing::Trained;
using testing::TrainShapes;

class GpuDocumentsTest : public testing::GpuTest {};

// One document has LoRA and embeddings, one has only keys and values. Two adapters learn.
std::vector<TrainedShape> MixedShapes() {
  return {{.rank = 7, .scale = 0.5f, .virtual_tokens = 5, .is_frozen = true},
          {.virtual_tokens = 9, .kind = VirtualTokenKind::kKeysValues, .is_frozen = true},
          {.rank = 12},
          {.rank = 20, .scale = 2.0f}};
}

// Questions about either document and about none.
std::vector<TrainingExample> MixedExamples() {
  std::vector<TrainingExample> examples = {RandomExample(70, 2, 1), RandomExample(9, 2, 2),
                                           RandomExample(100, 3, 3), RandomExample(33, 3, 4),
                                           RandomExample(21, 2, 5)};
  examples[0].document = examples[3].document = 0;
  examples[2].document = examples[4].document = 1;
  return examples;
}

void ExpectGradients(const Trained& actual, const Trained& expected, double loss_error,
                     void (*expect)(std::span<const float>, std::span<const float>)) {
  for (const size_t i : {2, 3}) {
    SCOPED_TRACE("adapter " + std::to_string(i));
    EXPECT_NEAR(actual.losses[i].tokens, expected.losses[i].tokens, loss_error);
    expect(actual.gradients[i], expected.gradients[i]);
  }
}

TEST_F(GpuDocumentsTest, GradientsInFp32AreTheCpus) {
  for (const ModelConfig& config : FamilyConfigs({ConfigOf(32, 6, 2)})) {
    SCOPED_TRACE(NameOf(config));
    DeviceModel cpu(config, DType::kF32, {});
    DeviceModel gpu(config, DType::kF32, kGpu);
    ExpectGradients(TrainShapes(gpu, LimitsOf(kAll), MixedShapes(), MixedExamples()),
                    TrainShapes(cpu, LimitsOf(kAll), MixedShapes(), MixedExamples()), 1e-5,
                    ExpectNear);
  }
}

TEST_F(GpuDocumentsTest, GradientsInBf16PointWhereTheCpusDo) {
  for (const ModelConfig& config : FamilyConfigs({ConfigOf(64, 4, 2)})) {
    SCOPED_TRACE(NameOf(config));
    DeviceModel cpu(config, DType::kBF16, {});
    DeviceModel gpu(config, DType::kBF16, kGpu);
    ExpectGradients(TrainShapes(gpu, LimitsOf(kAll), MixedShapes(), MixedExamples()),
                    TrainShapes(cpu, LimitsOf(kAll), MixedShapes(), MixedExamples()), 2e-2,
                    ExpectPointsAlong);
  }
}

// The documents' numbers also stay what they were.
TEST_F(GpuDocumentsTest, TogetherIsAloneAndComputedAgainIsKept) {
  for (const ModelConfig& config : FamilyConfigs({ConfigOf(64, 4, 2)})) {
    SCOPED_TRACE(NameOf(config));
    DeviceModel model(config, DType::kBF16, kGpu);
    const std::vector<TrainingExample> examples = MixedExamples();
    const Trained together = TrainShapes(model, LimitsOf(kAll), MixedShapes(), examples, 2);
    const Trained before = TrainShapes(model, LimitsOf(kAll), MixedShapes(), examples, 0);
    const Trained again = TrainShapes(model, LimitsOf(0), MixedShapes(), examples, 2);
    for (const int32_t adapter : {2, 3}) {
      SCOPED_TRACE("adapter " + std::to_string(adapter));
      std::vector<TrainingExample> own;
      for (const TrainingExample& example : examples) {
        if (example.adapter == adapter) own.push_back(example);
      }
      const auto i = static_cast<size_t>(adapter);
      const Trained alone = TrainShapes(model, LimitsOf(kAll), MixedShapes(), own, 2);
      for (const Trained* other : {&alone, &again}) {
        EXPECT_EQ(other->losses[i].tokens, together.losses[i].tokens);
        EXPECT_TRUE(other->gradients[i] == together.gradients[i]);
        EXPECT_TRUE(other->parameters[i] == together.parameters[i]);
      }
      EXPECT_FALSE(before.parameters[i] == together.parameters[i]);
    }
    for (const size_t i : {0, 1}) {
      EXPECT_TRUE(before.parameters[i] == together.parameters[i]);
      EXPECT_TRUE(before.prompt_parameters[i] == together.prompt_parameters[i]);
    }
  }
}

}  // namespace gpu_documents_test
}  // namespace graft
