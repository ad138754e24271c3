// Gradients against two others: PyTorch's with PEFT (tests/goldens/lora_training and gradients),
// and those of a reference in doubles that was checked against finite differences
// (tests/goldens/lora_gradients).
#include <gtest/gtest.h>

#include "base/file.h"
#include "learn/test_model.h"

namespace graft {
namespace gradients_test {

using testing::GoldenExamples;
using testing::GoldenValues;
using testing::LearnModel;
using testing::ReadLora;
using testing::SourcePath;
using testing::WorstError;

constexpr double kErrorMax = 1e-5;

TEST(GradientsTest, AreThoseOfPyTorchAndPeft) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kF32);
  const std::string dir = SourcePath("tests/goldens/lora_training");
  const SafetensorsFile golden = *SafetensorsFile::Open(dir + "/golden.safetensors");
  Trainer trainer(model.config, model.weights,
                  {.rows_max = 64, .sequences_max = 3, .rank_max = 4, .logits_rows_max = 7},
                  model.stream);
  TrainedLora& lora = trainer.adapter(trainer.Add(4, 2.0f));
  ASSERT_TRUE(lora.Read(ReadLora(dir, model.config, DType::kF32)).ok());
  const std::vector<TrainingExample> examples = GoldenExamples(golden, 20);
  const auto losses = GoldenValues<float>(golden, "losses");
  for (int step = 0; step < 3; ++step) {
    const TrainingLoss loss = trainer.Accumulate(testing::PointersTo(examples))[0];
    EXPECT_NEAR(loss.tokens, losses[static_cast<size_t>(step)], 1e-5);
    if (step == 0) {
      EXPECT_LT(WorstError(model.config, lora, lora.gradients(), golden, "grad."), kErrorMax);
    }
    const Trainer::Update update{0,
                                 {.learning_rate = 1e-2f, .weight_decay = 0.01f, .norm_max = 0.0f}};
    trainer.Apply({&update, 1});
  }
  // Adam divides each element's step by the element's own size, so small elements' errors grow,
  // too.
  EXPECT_LT(WorstError(model.config, lora, lora.parameters(), golden, "after3."), 1e-3);
}

// With what each family's layers have: windows, caps, norms of queries, keys and outputs, GeGLU,
// multipliers, layers that do not rotate, neighbours that turn, LayerNorm, plain and parallel MLPs,
// biases, learned positions. Kept, and computed again.
TEST(GradientsTest, OfEachFamilyAreThoseOfPyTorch) {
  for (const char* const name : testing::kFamiliesWithGradients) {
    SCOPED_TRACE(name);
    LearnModel model(SourcePath(std::string("tests/goldens/") + name), DType::kF32);
    // PyTorch itself is off by 7e-6 in fp32 there, twice as much as elsewhere.
    const double error_max = std::string(name) == "glm" ? 2 * kErrorMax : kErrorMax;
    for (const int64_t activation_bytes : {int64_t{0}, int64_t{1} << 24}) {
      testing::ExpectGoldenGradients(name, model.config, model.weights, activation_bytes,
                                     model.stream, error_max);
    }
  }
}

struct Reference {
  LearnModel model{SourcePath("tests/goldens/lora_gradients"), DType::kF32};
  SafetensorsFile golden =
      *SafetensorsFile::Open(SourcePath("tests/goldens/lora_gradients/golden.safetensors"));
  LoraWeights lora =
      ReadLora(SourcePath("tests/goldens/lora_gradients"), model.config, DType::kF32);

  TrainingExample Example(const std::string& name) const {
    TrainingExample example;
    example.tokens = GoldenValues<int32_t>(golden, name + ".tokens");
    example.rows = GoldenValues<int32_t>(golden, name + ".rows");
    example.ids = GoldenValues<int32_t>(golden, name + ".ids");
    example.probabilities = GoldenValues<float>(golden, name + ".probabilities");
    example.num_choices = static_cast<int32_t>(example.ids.size() / example.rows.size());
    return example;
  }
};

// Top-K targets that leave some probability to other tokens, and the whole distribution.
TEST(GradientsTest, AreThoseOfDoubles) {
  Reference reference;
  for (const std::string name : {"choices", "distillation"}) {
    SCOPED_TRACE(name);
    for (const int64_t activation_bytes : {int64_t{0}, int64_t{1} << 20}) {
      Trainer trainer(reference.model.config, reference.model.weights,
                      {.rows_max = 16,
                       .sequences_max = 1,
                       .rank_max = 3,
                       .activation_bytes_max = activation_bytes},
                      reference.model.stream);
      TrainedLora& lora = trainer.adapter(trainer.Add(3, 2.0f));
      ASSERT_TRUE(lora.Read(reference.lora).ok());
      const TrainingExample example = reference.Example(name);
      const TrainingLoss loss = trainer.Accumulate(testing::PointersTo({&example, 1}))[0];
      EXPECT_NEAR(loss.tokens, GoldenValues<float>(reference.golden, name + ".loss")[0], 1e-5);
      EXPECT_LT(WorstError(reference.model.config, lora, lora.gradients(), reference.golden,
                           name + ".grad."),
                kErrorMax);
    }
  }
}

}  // namespace gradients_test
}  // namespace graft
