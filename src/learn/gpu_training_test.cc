// Training on a GPU against the CPU, against gradients by PyTorch and PEFT, and against itself.
// Without a GPU the tests skip.
#include "learn/training_walker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>

#include "learn/gpu_test_model.h"
#include "learn/trainable.h"
#include "learn/training_sizes.h"
#include "tensor/allocations.h"

namespace graft {
namespace gpu_training_test {

using testing::ChoicesExample;
using testing::ConfigOf;
using testing::DeviceModel;
using testing::ExpectNear;
using testing::ExpectPointsAlong;
using testing::FamilyConfigs;
using testing::Fill;
using testing::ForEachMatrix;
using testing::GoldenValues;
using testing::kAll;
using testing::kErrorMax;
using testing::kGpu;
using testing::LimitsOf;
using testing::NameOf;
using testing::PointersTo;
using testing::RandomExample;
using testing::ReadLora;
using testing::SourcePath;
using testing::Trained;
using testing::WorstError;

class GpuTrainingTest : public testing::GpuTest {};

// The ranks of three adapters: different ones, or all as large as the limits allow.
using Ranks = std::array<int32_t, 3>;
constexpr Ranks kMixedRanks = {4, 20, 16};
constexpr Ranks kEqualRanks = {20, 20, 20};

Trained Train(DeviceModel& model, const TrainingLimits& limits,
              const std::vector<TrainingExample>& examples, int updates = 0,
              const Ranks& ranks = kMixedRanks) {
  std::vector<TrainedShape> shapes;
  for (const int32_t rank : ranks) {
    shapes.push_back({.rank = rank, .scale = 0.5f + static_cast<float>(shapes.size())});
  }
  return testing::TrainShapes(model, limits, shapes, examples, updates);
}

std::vector<TrainingExample> MixedExamples() {
  return {RandomExample(70, 1, 1), RandomExample(3, 0, 2), RandomExample(129, 2, 3),
          RandomExample(64, 1, 4), RandomExample(2, 2, 5)};
}

// In fp32 every matrix's gradient is within 1e-4 of its largest number.
TEST_F(GpuTrainingTest, GradientsInFp32AreTheCpus) {
  for (const auto& examples :
       {MixedExamples(), std::vector{ChoicesExample(50, 0, 1), ChoicesExample(33, 2, 2)}}) {
    DeviceModel cpu(ConfigOf(32, 6, 2), DType::kF32, {});
    DeviceModel gpu(ConfigOf(32, 6, 2), DType::kF32, kGpu);
    const Trained expected = Train(cpu, LimitsOf(kAll), examples);
    const Trained actual = Train(gpu, LimitsOf(kAll), examples);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(actual.losses[i].num_rows, expected.losses[i].num_rows);
      EXPECT_NEAR(actual.losses[i].tokens, expected.losses[i].tokens, 1e-5);
      ForEachMatrix(cpu.config, kMixedRanks[i], [&](size_t begin, size_t n) {
        ExpectNear(std::span(actual.gradients[i]).subspan(begin, n),
                   std::span(expected.gradients[i]).subspan(begin, n));
      });
    }
  }
}

// The GPU's bf16 against the CPU's training of the same bf16 weights, which has fp32 activations.
// Every matrix's gradient points the same way and is as long. Each adapter has dozens of tokens: of
// three tokens alone, bf16's rounding turns the gradients of queries and keys as far as a cosine of
// 0.997, in PyTorch as well.
TEST_F(GpuTrainingTest, GradientsInBf16PointWhereTheCpusDo) {
  std::vector<TrainingExample> examples = MixedExamples();
  examples.push_back(RandomExample(90, 0, 6));
  for (const ModelConfig& config :
       FamilyConfigs({ConfigOf(64, 4, 2), ConfigOf(128, 3, 1), ConfigOf(80, 4, 2),
                      ConfigOf(96, 2, 1), ConfigOf(256, 2, 1)})) {
    SCOPED_TRACE(NameOf(config));
    DeviceModel cpu(config, DType::kBF16, {});
    DeviceModel gpu(config, DType::kBF16, kGpu);
    const Ranks& ranks = config.head_dim == 64 ? kMixedRanks : kEqualRanks;
    const Trained expected = Train(cpu, LimitsOf(kAll), examples, 0, ranks);
    const Trained actual = Train(gpu, LimitsOf(kAll), examples, 0, ranks);
    for (size_t i = 0; i < 3; ++i) {
      SCOPED_TRACE("adapter " + std::to_string(i));
      EXPECT_NEAR(actual.losses[i].tokens, expected.losses[i].tokens, 2e-2);
      ForEachMatrix(config, ranks[i], [&](size_t begin, size_t n) {
        ExpectPointsAlong(std::span(actual.gradients[i]).subspan(begin, n),
                          std::span(expected.gradients[i]).subspan(begin, n));
      });
    }
  }
}

TEST_F(GpuTrainingTest, GradientsAreThoseOfPyTorchAndPeft) {
  DeviceModel model(SourcePath("tests/goldens/llama"), DType::kF32, kGpu);
  const std::string dir = SourcePath("tests/goldens/lora_training");
  const SafetensorsFile golden = *SafetensorsFile::Open(dir + "/golden.safetensors");
  Trainer trainer(model.config, model.weights,
                  {.rows_max = 64, .sequences_max = 3, .rank_max = 4, .logits_rows_max = 7},
                  model.owned.get());
  TrainedLora& lora = trainer.adapter(trainer.Add(4, 2.0f));
  ASSERT_TRUE(lora.Read(ReadLora(dir, model.config, DType::kF32)).ok());
  const std::vector<TrainingExample> examples = testing::GoldenExamples(golden, 20);
  const auto losses = GoldenValues<float>(golden, "losses");
  for (int step = 0; step < 3; ++step) {
    const TrainingLoss loss = trainer.Accumulate(PointersTo(examples))[0];
    EXPECT_NEAR(loss.tokens, losses[static_cast<size_t>(step)], 1e-4);
    if (step == 0) {
      EXPECT_LT(WorstError(model.config, trainer.adapter(0), trainer.adapter(0).gradients(), golden,
                           "grad."),
                kErrorMax);
    }
    const Trainer::Update update{0,
                                 {.learning_rate = 1e-2f, .weight_decay = 0.01f, .norm_max = 0.0f}};
    trainer.Apply({&update, 1});
  }
  EXPECT_LT(WorstError(model.config, trainer.adapter(0), trainer.adapter(0).parameters(), golden,
                       "after3."),
            2e-3);
}

TEST_F(GpuTrainingTest, GradientsOfEachFamilyAreThoseOfPyTorch) {
  for (const char* const name : testing::kFamiliesWithGradients) {
    SCOPED_TRACE(name);
    DeviceModel model(SourcePath(std::string("tests/goldens/") + name), DType::kF32, kGpu);
    EXPECT_TRUE(CheckTrainableOnGpu(model.config, DType::kF32, kGpu).ok());
    for (const int64_t activation_bytes : {int64_t{0}, int64_t{1} << 24}) {
      testing::ExpectGoldenGradients(name, model.config, model.weights, activation_bytes,
                                     model.owned.get(), kErrorMax);
    }
  }
}

TEST_F(GpuTrainingTest, AdaptersTogetherAreAdaptersAlone) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const ModelConfig& config : FamilyConfigs({ConfigOf(64, 4, 2)})) {
      SCOPED_TRACE(NameOf(config));
      DeviceModel model(config, dtype, kGpu);
      const Ranks& ranks = dtype == DType::kF32 ? kMixedRanks : kEqualRanks;
      const std::vector<TrainingExample> examples = MixedExamples();
      const Trained together = Train(model, LimitsOf(kAll), examples, 2, ranks);
      for (int32_t adapter = 0; adapter < 3; ++adapter) {
        std::vector<TrainingExample> own;
        for (const TrainingExample& example : examples) {
          if (example.adapter == adapter) own.push_back(example);
        }
        const auto i = static_cast<size_t>(adapter);
        const Trained alone = Train(model, LimitsOf(kAll), own, 2, ranks);
        EXPECT_EQ(alone.losses[i].tokens, together.losses[i].tokens);
        EXPECT_EQ(alone.gradients[i], together.gradients[i]);
        EXPECT_EQ(alone.parameters[i], together.parameters[i]);
      }
    }
  }
}

TEST_F(GpuTrainingTest, ComputingAndTransposingAgainChangeNothing) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const ModelConfig& config : FamilyConfigs({ConfigOf(128, 2, 1)})) {
      SCOPED_TRACE(NameOf(config));
      DeviceModel model(config, dtype, kGpu);
      const int64_t layer = LayerActivationBytes(model.config, dtype, kGpu, 512);
      const int64_t transposed = LayerTransposedBytes(model.config, dtype, kGpu);
      const Trained kept = Train(model, LimitsOf(kAll, kAll), MixedExamples(), 2);
      for (const int64_t layers : {0, 1, 2}) {
        const Trained again =
            Train(model, LimitsOf(layers * layer, layers * transposed), MixedExamples(), 2);
        EXPECT_EQ(again.gradients, kept.gradients);
        EXPECT_EQ(again.parameters, kept.parameters);
      }
    }
  }
}

// A step that exceeds the limits is computed in groups of whole adapters. The head's rows come in
// parts, too.
TEST_F(GpuTrainingTest, GroupsOfAdaptersChangeNothing) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const ModelConfig& config : FamilyConfigs({ConfigOf(64, 4, 2)})) {
      SCOPED_TRACE(NameOf(config));
      DeviceModel model(config, dtype, kGpu);
      const Ranks& ranks = dtype == DType::kF32 ? kMixedRanks : kEqualRanks;
      const Trained at_once = Train(model, LimitsOf(kAll), MixedExamples(), 2, ranks);
      // The adapters have 3, 134 and 131 rows.
      for (const int32_t rows_max : {140, 134, 267}) {
        for (const int64_t kept : {int64_t{0}, kAll}) {
          TrainingLimits limits = LimitsOf(kept);
          limits.rows_max = rows_max;
          limits.logits_rows_max = rows_max == 134 ? 7 : 512;
          const Trained in_groups = Train(model, limits, MixedExamples(), 2, ranks);
          EXPECT_EQ(in_groups.gradients, at_once.gradients);
          EXPECT_EQ(in_groups.parameters, at_once.parameters);
          for (size_t i = 0; i < 3; ++i) {
            EXPECT_EQ(in_groups.losses[i].tokens, at_once.losses[i].tokens);
          }
        }
      }
    }
  }
}

// A best step's numbers stay on the device while others are learned, and then become the adapter's
// again.
TEST_F(GpuTrainingTest, TheBestNumbersComeBack) {
  DeviceModel model(ConfigOf(64, 4, 2), DType::kBF16, kGpu);
  const std::vector<TrainingExample> examples = {RandomExample(70, 0, 1)};
  Trainer trainer(model.config, model.weights, LimitsOf(kAll), model.owned.get());
  const int32_t adapter =
      trainer.Add({.rank = 16, .virtual_tokens = 24, .kind = VirtualTokenKind::kEmbedding});
  Fill(*trainer.lora(adapter), 1);
  Fill(*trainer.prompt(adapter), 2);
  const Trainer::Update update{adapter, {}};
  const auto numbers = [&] {
    std::vector<float> all;
    for (const auto& part :
         {trainer.lora(adapter)->parameters(), trainer.prompt(adapter)->parameters()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  };
  EXPECT_FALSE(trainer.has_best(adapter));
  const double loss = trainer.Evaluate(PointersTo(examples))[0].tokens;
  trainer.KeepBest(adapter);
  const std::vector<float> best = numbers();
  for (int step = 0; step < 2; ++step) {
    trainer.Accumulate(PointersTo(examples));
    trainer.Apply({&update, 1});
  }
  EXPECT_NE(numbers(), best);
  EXPECT_EQ(trainer.best(adapter), best);
  trainer.TakeBest(adapter);
  EXPECT_EQ(numbers(), best);
  EXPECT_EQ(trainer.Evaluate(PointersTo(examples))[0].tokens, loss);
  // A checkpoint's best numbers come from the host's memory.
  trainer.Accumulate(PointersTo(examples));
  trainer.Apply({&update, 1});
  trainer.set_best(adapter, best);
  trainer.TakeBest(adapter);
  EXPECT_EQ(numbers(), best);
  EXPECT_EQ(trainer.Evaluate(PointersTo(examples))[0].tokens, loss);
}

// A server's steps that never come, on a GPU so slow that every product is cut into parts and
// everything is a piece of its own.
class SlowMarks : public TurnMarks {
 public:
  void BeginStep() override {}
  void EndStep() override {}
  void BeginPiece() override {}
  void EndPiece() override { ++num_pieces; }
  int64_t WaitForPiece() override { return 1'000'000'000; }

  int32_t num_pieces = 0;
};

// LoRA and virtual tokens learn, with a document's adapter beside them if asked for.
void ExpectPiecesChangeNothing(const ModelConfig& config, DType dtype, const Ranks& ranks,
                               const Device& device, bool with_document) {
  SCOPED_TRACE(NameOf(config) + (with_document ? ", beside a document" : ""));
  DeviceModel model(config, dtype, device);
  const int64_t layer = LayerActivationBytes(model.config, dtype, device, 512);
  std::vector<TrainedShape> shapes;
  for (const int32_t rank : ranks) shapes.push_back({.rank = rank, .scale = 0.5f});
  shapes.push_back({.virtual_tokens = 40, .kind = VirtualTokenKind::kEmbedding});
  shapes.push_back({.virtual_tokens = 40, .kind = VirtualTokenKind::kKeysValues});
  std::vector<TrainingExample> examples = MixedExamples();
  examples.push_back(RandomExample(50, 3, 6));
  examples.push_back(RandomExample(50, 4, 7));
  if (with_document) {
    shapes.push_back({.rank = 7, .is_frozen = true});
    for (const size_t i : {0, 2}) examples[i].document = 5;
  }
  TrainingLimits limits = LimitsOf(layer, 0);
  limits.prefix_tokens_max = 40;
  const Trained whole = testing::TrainShapes(model, limits, shapes, examples, 1);
  SlowMarks marks;
  DeviceTurns turns(0.5, marks, SteadyClock::Get());
  const Trained cut = testing::TrainShapes(model, limits, shapes, examples, 1, &turns);
  EXPECT_GT(marks.num_pieces, 50);
  EXPECT_EQ(cut.gradients, whole.gradients);
  EXPECT_EQ(cut.parameters, whole.parameters);
  EXPECT_EQ(cut.prompt_gradients, whole.prompt_gradients);
  EXPECT_EQ(cut.prompt_parameters, whole.prompt_parameters);
  for (size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_EQ(cut.losses[i].tokens, whole.losses[i].tokens);
  }
}

TEST_F(GpuTrainingTest, InPiecesTheBitsAreTheSame) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Ranks& ranks : {kMixedRanks, kEqualRanks}) {
      for (const ModelConfig& config : FamilyConfigs({ConfigOf(64, 4, 2)})) {
        ExpectPiecesChangeNothing(config, dtype, ranks, kGpu, false);
        ExpectPiecesChangeNothing(config, dtype, ranks, kGpu, true);
      }
    }
  }
}

// The CPU takes no turns, but the same code would cut its steps in the same way.
TEST(TrainingInPiecesTest, TheBitsAreTheSameOnTheCpu) {
  ExpectPiecesChangeNothing(ConfigOf(64, 4, 2), DType::kBF16, kMixedRanks, {}, false);
  for (const ModelConfig& config : FamilyConfigs({})) {
    ExpectPiecesChangeNothing(config, DType::kBF16, kMixedRanks, {}, true);
  }
}

// A run that takes its numbers from the host's memory, as from a checkpoint, has the same bits.
TEST_F(GpuTrainingTest, GoesOnFromTheHostsNumbers) {
  DeviceModel model(ConfigOf(64, 4, 2), DType::kBF16, kGpu);
  const std::vector<TrainingExample> examples = {RandomExample(70, 0, 1)};
  const Trainer::Update update{0, {}};
  const auto step = [&](Trainer& trainer) {
    trainer.Accumulate(PointersTo(examples));
    trainer.Apply({&update, 1});
  };
  Trainer whole(model.config, model.weights, LimitsOf(kAll), model.owned.get());
  Fill(whole.adapter(whole.Add(16, 1.0f)), 1);
  step(whole);
  step(whole);
  Trainer resumed(model.config, model.weights, LimitsOf(kAll), model.owned.get());
  TrainedLora& from = whole.adapter(0);
  TrainedLora& to = resumed.adapter(resumed.Add(16, 1.0f));
  std::ranges::copy(from.parameters(), to.parameters().begin());
  std::ranges::copy(from.first_moments(), to.first_moments().begin());
  std::ranges::copy(from.second_moments(), to.second_moments().begin());
  to.Refresh();
  resumed.set_num_updates(0, 2);
  step(whole);
  step(resumed);
  EXPECT_TRUE(std::ranges::equal(whole.adapter(0).parameters(), resumed.adapter(0).parameters()));
  EXPECT_EQ(whole.Evaluate(PointersTo(examples))[0].tokens,
            resumed.Evaluate(PointersTo(examples))[0].tokens);
}

TEST_F(GpuTrainingTest, TheSumIsWhatIsTaken) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const ModelConfig& config : FamilyConfigs({ConfigOf(64, 4, 2)})) {
      SCOPED_TRACE(NameOf(config));
      DeviceModel model(config, dtype, kGpu);
      const int64_t layer = LayerActivationBytes(model.config, dtype, kGpu, 512);
      const int64_t transposed = LayerTransposedBytes(model.config, dtype, kGpu);
      for (const int64_t layers : {0, 1, 100}) {
        TrainingLimits limits = LimitsOf(layers * layer, layers * transposed);
        limits.chooses = layers == 1;
        const int64_t before = AllocatedBytes(kGpu);
        const TrainingWalker training(model.config, model.weights, limits, model.owned.get());
        EXPECT_EQ(AllocatedBytes(kGpu) - before,
                  SizesOf(limits, model.config, dtype, kGpu, model.threads.num_threads()).total());
      }
      TrainedLora host(model.config, 5, 1.0f, dtype);
      const int64_t before = AllocatedBytes(kGpu);
      const DeviceLora lora(host, model.owned.get());
      EXPECT_EQ(AllocatedBytes(kGpu) - before, DeviceAdapterBytes(model.config, 5, dtype));
    }
  }
}

// What CheckTrainableOnGpu refuses without a look at the card.
TEST(GpuTrainableTest, RefusesByName) {
  if (!kHasCuda) GTEST_SKIP() << "built without the CUDA backend";
  const ModelConfig config = ConfigOf(64, 4, 2);
  EXPECT_NE(CheckTrainableOnGpu(config, DType::kF16, kGpu).message().find("fp16"),
            std::string::npos);
  ModelConfig odd = config;
  odd.vocab_size = 50257;  // GPT-2's
  EXPECT_NE(CheckTrainableOnGpu(odd, DType::kBF16, kGpu).message().find("vocab_size"),
            std::string::npos);
  EXPECT_NE(
      CheckTrainableOnGpu(ConfigOf(258, 4, 2), DType::kBF16, kGpu).message().find("heads of 258"),
      std::string::npos);
}

}  // namespace gpu_training_test
}  // namespace graft
