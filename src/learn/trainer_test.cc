#include "learn/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/file.h"
#include "base/random.h"
#include "layers/lora_store.h"
#include "learn/test_model.h"
#include "learn/trainable.h"
#include "learn/training_walker.h"
#include "model/test_session.h"

namespace graft {
namespace trainer_test {

using testing::LearnModel;
using testing::ReadLora;
using testing::SourcePath;

std::vector<int32_t> RandomTokens(size_t n, uint64_t seed, int32_t vocab_size = 256) {
  Random random(seed);
  std::vector<int32_t> tokens(n);
  for (int32_t& token : tokens)
    token = static_cast<int32_t>(random.Below(static_cast<uint64_t>(vocab_size)));
  return tokens;
}

std::vector<TrainingExample> ExamplesOf(int32_t adapter) {
  std::vector<TrainingExample> examples;
  for (uint64_t i = 0; i < 3; ++i) {
    examples.push_back(NextTokenExample(RandomTokens(9 + 7 * i + static_cast<size_t>(adapter),
                                                     10 * static_cast<uint64_t>(adapter) + i),
                                        adapter));
  }
  return examples;
}

struct Trained {
  std::vector<float> parameters;
  std::vector<float> gradients;
  double loss;
};

// Makes three updates of these adapters together, with two ranks, steps and rates. Returns all
// adapters.
std::vector<Trained> TrainTogether(LearnModel& model, const std::vector<int32_t>& adapters,
                                   int64_t activation_bytes, int* num_kept = nullptr,
                                   int32_t rows_max = 256, int32_t sequences_max = 16,
                                   DeviceTurns* turns = nullptr) {
  Trainer trainer(model.config, model.weights,
                  {.rows_max = rows_max,
                   .sequences_max = sequences_max,
                   .rank_max = 8,
                   .activation_bytes_max = activation_bytes},
                  model.stream, {}, turns);
  if (num_kept != nullptr) *num_kept = trainer.device().num_kept_layers();
  std::vector<TrainingExample> examples;
  std::vector<Trainer::Update> updates;
  for (int32_t i = 0; i < 3; ++i) {
    trainer.adapter(trainer.Add(4 + i, 2.0f)).Initialize(static_cast<uint64_t>(i));
  }
  // The order is mixed, so that the trainer has to sort.
  for (size_t i = 0; i < 3; ++i) {
    for (const int32_t adapter : adapters) {
      examples.push_back(ExamplesOf(adapter)[i]);
      if (i == 0)
        updates.push_back({adapter, {.learning_rate = 1e-2f * static_cast<float>(1 + adapter)}});
    }
  }
  std::vector<TrainingLoss> losses;
  for (int step = 0; step < 3; ++step) {
    losses = trainer.Accumulate(testing::PointersTo(examples));
    trainer.Apply(updates);
  }
  std::vector<Trained> runs;
  for (int32_t i = 0; i < 3; ++i) {
    TrainedLora& lora = trainer.adapter(i);
    runs.push_back({{lora.parameters().begin(), lora.parameters().end()},
                    {lora.gradients().begin(), lora.gradients().end()},
                    losses[static_cast<size_t>(i)].tokens});
  }
  return runs;
}

// A device so slow that pieces have as few rows as they may.
class SlowDevice : public TurnMarks {
 public:
  void BeginStep() override {}
  void EndStep() override {}
  void BeginPiece() override { ++num_pieces; }
  void EndPiece() override {}
  int64_t WaitForPiece() override { return int64_t{1} << 40; }
  int num_pieces = 0;
};

// Products take the rows in parts if all together would take longer than a piece may.
TEST(TrainerTest, InPartsTheBitsAreTheSame) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    LearnModel model(SourcePath("tests/goldens/llama"), dtype);
    const std::vector<Trained> whole = TrainTogether(model, {0, 1, 2}, 0);
    SlowDevice device;
    const ManualClock clock;
    DeviceTurns turns(0.3, device, clock);
    const std::vector<Trained> parts = TrainTogether(model, {0, 1, 2}, 0, nullptr, 256, 16, &turns);
    // Each of a layer's products has two parts: forward twice, and backward for o and down.
    EXPECT_GT(device.num_pieces, 2 * 2 * model.config.num_layers * (2 * kLayerProducts + 2));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(parts[i].loss, whole[i].loss);
      EXPECT_EQ(parts[i].gradients, whole[i].gradients);
      EXPECT_EQ(parts[i].parameters, whole[i].parameters);
    }
  }
}

TEST(TrainerTest, AdaptersTogetherAreAdaptersAlone) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    LearnModel model(SourcePath("tests/goldens/llama"), dtype);
    const std::vector<Trained> together = TrainTogether(model, {0, 2, 1}, 0);
    for (int32_t adapter = 0; adapter < 3; ++adapter) {
      const Trained alone = TrainTogether(model, {adapter}, 0)[static_cast<size_t>(adapter)];
      const Trained& one = together[static_cast<size_t>(adapter)];
      EXPECT_EQ(alone.loss, one.loss);
      EXPECT_EQ(alone.gradients, one.gradients);
      EXPECT_EQ(alone.parameters, one.parameters);
    }
  }
}

// The step exceeds the limits: adapters have 48, 51 and 54 rows in three sequences each.
TEST(TrainerTest, GroupsOfAdaptersChangeNothing) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kBF16);
  const std::vector<Trained> at_once = TrainTogether(model, {0, 2, 1}, 0);
  for (const auto& [rows_max, sequences_max] : {std::pair{99, 16}, {104, 16}, {54, 16}, {256, 8}}) {
    const std::vector<Trained> in_groups =
        TrainTogether(model, {0, 2, 1}, 0, nullptr, rows_max, sequences_max);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(in_groups[i].loss, at_once[i].loss);
      EXPECT_EQ(in_groups[i].gradients, at_once[i].gradients);
      EXPECT_EQ(in_groups[i].parameters, at_once[i].parameters);
    }
  }
}

TEST(TrainerTest, ComputingAgainChangesNothing) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kBF16);
  int num_kept = -1;
  const std::vector<Trained> again = TrainTogether(model, {0, 1, 2}, 0, &num_kept);
  EXPECT_EQ(num_kept, 0);
  const std::vector<Trained> half = TrainTogether(model, {0, 1, 2}, 600'000, &num_kept);
  EXPECT_EQ(num_kept, 1);
  const std::vector<Trained> kept = TrainTogether(model, {0, 1, 2}, 1 << 30, &num_kept);
  EXPECT_EQ(num_kept, model.config.num_layers);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(again[i].parameters, kept[i].parameters);
    EXPECT_EQ(half[i].parameters, kept[i].parameters);
  }
}

// An example of weight 3 has three times its gradients. The losses do not show the weight.
TEST(TrainerTest, AnExamplesWeightIsThatOfItsGradients) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kF32);
  Trainer trainer(model.config, model.weights,
                  {.rows_max = 256, .sequences_max = 16, .rank_max = 4}, model.stream);
  TrainedLora& lora = trainer.adapter(trainer.Add(4, 2.0f));
  lora.Initialize(3);
  Random random(3);
  for (float& p : lora.parameters()) p += static_cast<float>(random.Normal() * 0.02);
  lora.Refresh();
  std::vector<TrainingExample> examples = ExamplesOf(0);
  const auto gradients = [&](std::vector<float> weights) {
    for (size_t i = 0; i < 3; ++i) examples[i].weight = weights[i];
    const double loss = trainer.Accumulate(testing::PointersTo(examples))[0].tokens;
    return std::pair(loss, std::vector(lora.gradients().begin(), lora.gradients().end()));
  };
  const auto [loss, all] = gradients({1.0f, 1.0f, 1.0f});
  const auto [loss_of_one, one] = gradients({0.0f, 1.0f, 0.0f});
  const auto [loss_of_weighted, weighted] = gradients({1.0f, 3.0f, 1.0f});
  EXPECT_EQ(loss, loss_of_one);
  EXPECT_EQ(loss, loss_of_weighted);
  float largest = 0.0f, error = 0.0f;
  for (size_t i = 0; i < all.size(); ++i) {
    largest = std::max(largest, std::fabs(weighted[i]));
    error = std::max(error, std::fabs(weighted[i] - (all[i] + 2.0f * one[i])));
  }
  EXPECT_GT(largest, 0.0f);
  EXPECT_LT(error, 1e-5f * largest);
}

// The trainer's forward has the server's bits, with adapters and without.
TEST(TrainerTest, ForwardIsTheServers) {
  for (const char* name : {"llama",
                           "qwen2",
                           "qwen2-yarn",
                           "llama3-rope",
                           "qwen3",
                           "mistral-window",
                           "gemma",
                           "gemma2",
                           "gemma3",
                           "smollm3",
                           "granite",
                           "olmo2",
                           "olmo3",
                           "exaone4",
                           "phi3-longrope",
                           "phi3-partial-rotary",
                           "qwen3-vl",
                           "glm",
                           "glm4",
                           "gpt2",
                           "gpt-neo",
                           "gpt-neox",
                           "gpt-neox-serial",
                           "phi",
                           "starcoder2",
                           "ministral3"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(name);
      LearnModel model(SourcePath(std::string("tests/goldens/") + name), dtype);
      const bool is_llama = std::string(name) == "llama";
      const std::string adapter = SourcePath("tests/goldens/") +
                                  (is_llama ? "lora_training" : "gradients/" + std::string(name));
      TrainingWalker walker(model.config, model.weights,
                            {.rows_max = 64, .sequences_max = 2, .rank_max = 4}, model.stream);
      TrainedLora lora(model.config, is_llama ? 4 : 2, 2.0f, dtype);
      LoraStore store(model.config, 1);
      const bool has_adapter = FileExists(adapter + "/adapter_config.json");
      if (has_adapter) {
        ASSERT_TRUE(lora.Read(ReadLora(adapter, model.config, DType::kF32)).ok());
        store.Set(0, ReadLora(adapter, model.config, dtype).TakeRows());
      }
      const int32_t vocab = model.config.vocab_size;
      const std::vector<int32_t> first = RandomTokens(21, 1, vocab);
      const std::vector<int32_t> second = RandomTokens(18, 2, vocab);
      const TrainingSequence sequences[] = {{first, -1}, {second, has_adapter ? 0 : -1}};
      const TrainingBatch batch(sequences, walker.page_tokens());
      walker.Add({.lora = &lora});
      std::vector<int32_t> rows(39);
      std::iota(rows.begin(), rows.end(), 0);
      const std::vector<float> all = testing::LogitsOf(model, walker, batch, rows);
      const float* logits = all.data();

      testing::TestSession session(model.config, model.weights, model.stream);
      const auto served = session.Step(
          {{0, first, -1}, {1, second, has_adapter ? 0 : -1}},
          {store.matrices(0, LoraModule::kQ), store.matrices_stride(), store.rank_max()});
      for (const std::vector<float>& row : served) {
        EXPECT_TRUE(std::equal(row.begin(), row.end(), logits));
        logits += row.size();
      }
    }
  }
}

TEST(TrainerTest, TakesWhatThisBinaryHas) {
  EXPECT_TRUE(CheckTrainable({}).ok());
  EXPECT_EQ(CheckTrainable({DeviceKind::kCuda}).ok(), kHasCuda);
}

TEST(TrainedLoraTest, RefusesAdaptersOfOtherShapes) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kF32);
  TrainedLora lora(model.config, 8, 2.0f, DType::kF32);
  const LoraWeights other =
      ReadLora(SourcePath("tests/goldens/lora_training"), model.config, DType::kF32);
  EXPECT_EQ(lora.Read(other).code(), StatusCode::kInvalidArgument);
}

// Work beside training gets in between all layers.
TEST(TrainerTest, AMicroStepIsALayerAtMost) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kF32);
  int num_pauses = 0;
  TrainingLimits limits = {
      .rows_max = 256, .sequences_max = 16, .rank_max = 8, .logits_rows_max = 16};
  limits.transposed_bytes_max = int64_t{1} << 30;
  Trainer trainer(model.config, model.weights, limits, model.stream,
                  [&num_pauses] { ++num_pauses; });
  EXPECT_GE(num_pauses, model.config.num_layers) << "while weights are transposed, too";
  num_pauses = 0;
  trainer.adapter(trainer.Add(4, 2.0f)).Initialize(1);
  const std::vector<TrainingExample> examples = ExamplesOf(0);
  size_t num_rows = 0;
  for (const TrainingExample& example : examples) num_rows += example.rows.size();
  const auto num_head_pieces = static_cast<int>((num_rows + 15) / 16);
  trainer.Accumulate(testing::PointersTo(examples));
  EXPECT_EQ(num_pauses, 2 * model.config.num_layers + num_head_pieces);
  num_pauses = 0;
  trainer.Evaluate(testing::PointersTo(examples));
  EXPECT_EQ(num_pauses, model.config.num_layers + num_head_pieces);
  num_pauses = 0;
  const Trainer::Update updates[] = {{.adapter = 0, .settings = {}}};
  trainer.Apply(updates);
  EXPECT_EQ(num_pauses, 2);
}

}  // namespace trainer_test
}  // namespace graft
