// An encoder and a decoder that learn: a GPU against the CPU, and against itself. Without a GPU the
// tests skip.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "learn/corpus_test_run.h"
#include "learn/device_lora.h"
#include "learn/device_masters.h"
#include "learn/gpu_test_model.h"
#include "learn/training_device.h"
#include "tensor/allocations.h"

namespace graft {
namespace gpu_encoder_test {

using testing::ConfigOf;
using testing::DeviceModel;
using testing::ExpectNear;
using testing::ExpectPointsAlong;
using testing::FamilyConfigs;
using testing::Fill;
using testing::kAll;
using testing::kGpu;
using testing::NameOf;
using testing::PointersTo;
using testing::RandomExample;

class GpuEncoderTest : public testing::GpuTest {};

constexpr int32_t kTokens = 7;  // of each memory
// The table's adapters: encoder, decoder, and one that has nothing to do with them. Then there are
// memories of a window and of documents of three and of eleven texts. No forward takes eleven at
// once.
constexpr int32_t kEncoder = 0, kDecoder = 1, kOther = 2;
constexpr int32_t kMemories[] = {3, 4, 5};
constexpr int32_t kTexts[] = {1, 3, 11};

struct Chain {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<EncodedText> texts;
  std::vector<TrainingExample> examples;
};

std::unique_ptr<Chain> MakeChain() {
  auto chain = std::make_unique<Chain>();
  for (int32_t i = 0; i < 15; ++i) {
    chain->tokens.push_back(
        RandomExample(5 + 17 * i % 90, 0, 50 + static_cast<uint64_t>(i)).tokens);
  }
  size_t next = 0;
  for (size_t memory = 0; memory < std::size(kMemories); ++memory) {
    for (int32_t i = 0; i < kTexts[memory]; ++i) {
      chain->texts.push_back({chain->tokens[next++], kMemories[memory], i * kTokens});
    }
  }
  const auto add = [&](int32_t num_tokens, int32_t memory, uint64_t seed) {
    chain->examples.push_back(RandomExample(num_tokens, kDecoder, seed));
    chain->examples.back().prompt = memory;
  };
  add(33, kMemories[0], 1);
  TrainingExample& said = chain->examples[0];  // the memory's last token says its first
  said.rows.insert(said.rows.begin(), -1);
  said.ids.insert(said.ids.begin(), said.tokens[0]);
  said.probabilities.push_back(1.0f);
  add(40, kMemories[1], 2);
  add(71, kMemories[2], 3);
  add(2, kMemories[1], 4);
  return chain;
}

// The gradients of both, the memories, and the adapters after the steps.
struct Learned {
  double loss = 0.0;
  std::vector<std::vector<float>> gradients, parameters, memories;
};

// The head takes fewer rows at a time than a memory has.
TrainingLimits Limits(int64_t activation_bytes = kAll, int64_t transposed_bytes = 0) {
  TrainingLimits limits = testing::LimitsOf(activation_bytes, transposed_bytes);
  limits.logits_rows_max = 5;
  return limits;
}

struct Trained {
  Trained(DeviceModel& model, const TrainingLimits& limits)
      : trainer(model.config, model.weights, limits, model.owned.get()) {
    trainer.Add({.rank = 12, .scale = 0.5f, .virtual_tokens = kTokens});
    trainer.Add({.rank = 20, .scale = 1.5f});
    trainer.Add({.rank = 20});
    for (const int32_t texts : kTexts) trainer.Add({.virtual_tokens = texts * kTokens});
    const std::vector<int32_t> text = RandomExample(80, 0, 99).tokens;
    for (const int32_t i : {kEncoder, kDecoder, kOther}) {
      Fill(*trainer.lora(i), static_cast<uint64_t>(i));
    }
    trainer.BeginPrompt(kEncoder, text);
    Fill(*trainer.prompt(kEncoder), 1);
  }

  Learned Learn(const Chain& chain, int updates = 0, std::span<const TrainingExample> others = {}) {
    std::vector<TrainingExample> examples = chain.examples;
    examples.insert(examples.end(), others.begin(), others.end());
    const auto settings = [](float rate) { return UpdateSettings{.learning_rate = rate}; };
    std::vector<Trainer::Update> steps;
    for (const int32_t i : {kEncoder, kDecoder}) {
      steps.push_back({i, settings(1e-3f), settings(1e-2f)});
    }
    Learned learned;
    for (int update = 0; update <= updates; ++update) {
      trainer.Encode(kEncoder, chain.texts);
      learned.loss = trainer.Accumulate(PointersTo(examples))[kDecoder].tokens;
      trainer.BackwardEncoder(kEncoder, chain.texts);
      if (update < updates) trainer.Apply(steps);
    }
    const auto add = [&](auto* trained) {
      learned.gradients.emplace_back(trained->gradients().begin(), trained->gradients().end());
      learned.parameters.emplace_back(trained->parameters().begin(), trained->parameters().end());
    };
    add(trainer.lora(kEncoder));
    add(trainer.prompt(kEncoder));
    add(trainer.lora(kDecoder));
    for (const int32_t memory : kMemories) {
      const auto numbers = trainer.prompt(memory)->parameters();
      learned.memories.emplace_back(numbers.begin(), numbers.end());
    }
    return learned;
  }

  Trainer trainer;
};

Learned Learn(DeviceModel& model, int updates = 0, int64_t activation_bytes = kAll,
              int64_t transposed_bytes = 0) {
  return Trained(model, Limits(activation_bytes, transposed_bytes)).Learn(*MakeChain(), updates);
}

template <typename Expect>
void ExpectAlike(const Learned& actual, const Learned& expected, double loss_error,
                 const Expect& expect) {
  EXPECT_NEAR(actual.loss, expected.loss, loss_error);
  const char* const names[] = {"encoder's LoRA", "encoder's tokens", "decoder"};
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    SCOPED_TRACE(names[i]);
    expect(actual.gradients[i], expected.gradients[i]);
  }
  for (size_t i = 0; i < expected.memories.size(); ++i) {
    SCOPED_TRACE("memory " + std::to_string(i));
    expect(actual.memories[i], expected.memories[i]);
  }
}

void ExpectSame(const Learned& a, const Learned& b) {
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_TRUE(a.gradients == b.gradients);
  EXPECT_TRUE(a.parameters == b.parameters);
  EXPECT_TRUE(a.memories == b.memories);
}

TEST_F(GpuEncoderTest, GradientsInFp32AreTheCpus) {
  for (const ModelConfig& config : FamilyConfigs({ConfigOf(32, 6, 2)})) {
    SCOPED_TRACE(NameOf(config));
    DeviceModel cpu(config, DType::kF32, {});
    DeviceModel gpu(config, DType::kF32, kGpu);
    ExpectAlike(Learn(gpu), Learn(cpu), 1e-5, ExpectNear);
  }
}

TEST_F(GpuEncoderTest, GradientsInBf16PointWhereTheCpusDo) {
  for (const ModelConfig& config : FamilyConfigs({ConfigOf(64, 4, 2), ConfigOf(128, 3, 1)})) {
    SCOPED_TRACE(NameOf(config));
    DeviceModel cpu(config, DType::kBF16, {});
    DeviceModel gpu(config, DType::kBF16, kGpu);
    ExpectAlike(Learn(gpu), Learn(cpu), 2e-2, ExpectPointsAlong);
  }
}

// The encoder's own clip and moments are checked, too.
TEST_F(GpuEncoderTest, StepsInFp32AreTheCpus) {
  DeviceModel cpu(ConfigOf(32, 6, 2), DType::kF32, {});
  DeviceModel gpu(ConfigOf(32, 6, 2), DType::kF32, kGpu);
  const Learned expected = Learn(cpu, 3);
  const Learned actual = Learn(gpu, 3);
  EXPECT_NEAR(actual.loss, expected.loss, 1e-3);
  for (size_t i = 0; i < expected.parameters.size(); ++i) {
    for (size_t j = 0; j < expected.parameters[i].size(); ++j) {
      ASSERT_NEAR(actual.parameters[i][j], expected.parameters[i][j], 5e-3) << i << ", " << j;
    }
  }
}

TEST_F(GpuEncoderTest, ComputingAndTransposingAgainChangeNothing) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const ModelConfig& config : FamilyConfigs({ConfigOf(128, 2, 1)})) {
      SCOPED_TRACE(NameOf(config));
      DeviceModel model(config, dtype, kGpu);
      const int64_t layer = LayerActivationBytes(model.config, dtype, kGpu, 512);
      const Learned kept = Learn(model, 2, kAll, kAll);
      for (const int64_t layers : {0, 2}) ExpectSame(Learn(model, 2, layers * layer), kept);
    }
  }
}

// A text has the same memory alone and beside others. Other adapters that learn in the decoder's
// step change nothing.
TEST_F(GpuEncoderTest, TogetherIsAlone) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const ModelConfig& config : FamilyConfigs({ConfigOf(64, 4, 2)})) {
      SCOPED_TRACE(NameOf(config));
      DeviceModel model(config, dtype, kGpu);
      const auto chain = MakeChain();
      Trained trained(model, Limits());
      const Learned together = trained.Learn(*chain, 1);
      // The step has moved the encoder, so the memories are made anew, as in the step's last
      // forward.
      for (const EncodedText& text : chain->texts) trained.trainer.Encode(kEncoder, {&text, 1});
      for (size_t i = 0; i < std::size(kMemories); ++i) {
        EXPECT_TRUE(std::ranges::equal(trained.trainer.prompt(kMemories[i])->parameters(),
                                       together.memories[i]));
      }
      const std::vector<TrainingExample> others = {RandomExample(60, kOther, 8)};
      ExpectSame(Trained(model, Limits()).Learn(*chain, 1, others), together);
    }
  }
}

// A memory of keys and values: of some of the tokens of two texts, or of virtual tokens between and
// behind them.
struct ReadStep {
  double loss = 0.0;
  std::vector<std::vector<float>> gradients;
  std::vector<float> memory;
  TrainingChoices said;
};

ReadStep Read(DeviceModel& model, MemoryRows kind, int64_t activation_bytes = kAll) {
  const bool is_between = kind == MemoryRows::kBetween, is_behind = kind == MemoryRows::kBehind;
  TrainingLimits limits = Limits(activation_bytes);
  limits.prefix_tokens_max = 24;
  limits.chooses = true;
  Trainer trainer(model.config, model.weights, limits, model.owned.get());
  const int32_t encoder = trainer.Add({.rank = 12,
                                       .scale = 0.5f,
                                       .virtual_tokens = is_behind    ? kTokens
                                                         : is_between ? 1
                                                                      : 0});
  const int32_t decoder = trainer.Add({.rank = 20, .scale = 1.5f});
  const int32_t memory = trainer.Add({.virtual_tokens = 24, .kind = VirtualTokenKind::kKeysValues});
  Fill(*trainer.lora(encoder), 1);
  Fill(*trainer.lora(decoder), 2);
  if (kind != MemoryRows::kPieces) {
    trainer.BeginPrompt(encoder, RandomExample(80, 0, 99).tokens);
    Fill(*trainer.prompt(encoder), 3);
  }
  const std::vector<int32_t> first = RandomExample(70, 0, 11).tokens;
  std::vector<int32_t> second = RandomExample(33, 0, 12).tokens;
  for (size_t i = 0; i < 6 && is_between; ++i) second[4 * i] = kVirtualToken;
  std::vector<ReadText> texts = {{first, memory, {}}, {second, memory, {}, is_between}};
  for (int32_t i = 0; i < 12; ++i) texts[0].rows.push_back({5 * i + 3, i, i - 40});
  for (int32_t i = 0; i < (is_behind ? kTokens : 6); ++i) {
    texts[1].rows.push_back({is_behind ? 33 + i : 4 * i, 12 + i, 12 + i});
  }
  const int32_t read = 12 + static_cast<int32_t>(texts[1].rows.size());
  std::vector<TrainingExample> examples = {RandomExample(30, decoder, 4),
                                           RandomExample(9, decoder, 5)};
  for (TrainingExample& example : examples) {
    example.prompt = memory;
    example.prompt_tokens = read;
  }
  ReadStep step;
  trainer.EncodeKeysValues(encoder, texts);
  step.loss = trainer.Accumulate(PointersTo(examples))[static_cast<size_t>(decoder)].tokens;
  trainer.BackwardKeysValues(encoder, texts);
  const auto add = [](std::span<const float> numbers) {
    return std::vector<float>(numbers.begin(), numbers.end());
  };
  step.gradients = {add(trainer.lora(encoder)->gradients()),
                    add(trainer.lora(decoder)->gradients())};
  if (kind != MemoryRows::kPieces) {
    step.gradients.push_back(add(trainer.prompt(encoder)->gradients()));
  }
  const auto numbers = trainer.prompt(memory)->parameters();
  step.memory.assign(numbers.begin(), numbers.begin() + read * trainer.prompt(memory)->columns());
  step.said = trainer.Choose(PointersTo(examples), 3, true)[0];
  return step;
}

TEST_F(GpuEncoderTest, KeysAndValuesInFp32AreTheCpus) {
  DeviceModel cpu(ConfigOf(32, 6, 2), DType::kF32, {});
  DeviceModel gpu(ConfigOf(32, 6, 2), DType::kF32, kGpu);
  for (const MemoryRows kind : {MemoryRows::kPieces, MemoryRows::kBetween, MemoryRows::kBehind}) {
    const ReadStep expected = Read(cpu, kind), actual = Read(gpu, kind);
    EXPECT_NEAR(actual.loss, expected.loss, 1e-5);
    ExpectNear(actual.memory, expected.memory);
    for (size_t i = 0; i < expected.gradients.size(); ++i) {
      ExpectNear(actual.gradients[i], expected.gradients[i]);
    }
    EXPECT_EQ(actual.said.ids, expected.said.ids);
    const ReadStep again = Read(gpu, kind, 0);
    EXPECT_TRUE(again.gradients == actual.gradients) << "layers that are computed again";
  }
}

TEST_F(GpuEncoderTest, KeysAndValuesInBf16PointWhereTheCpusDo) {
  for (const ModelConfig& config : FamilyConfigs({ConfigOf(64, 4, 2), ConfigOf(128, 3, 1)})) {
    SCOPED_TRACE(NameOf(config));
    if (config.num_positions > 0) continue;  // an encoder's memories have none
    DeviceModel cpu(config, DType::kBF16, {});
    DeviceModel gpu(config, DType::kBF16, kGpu);
    const ReadStep expected = Read(cpu, MemoryRows::kBetween);
    const ReadStep actual = Read(gpu, MemoryRows::kBetween);
    EXPECT_NEAR(actual.loss, expected.loss, 2e-2);
    ExpectPointsAlong(actual.memory, expected.memory);
    for (size_t i = 0; i < expected.gradients.size(); ++i) {
      ExpectPointsAlong(actual.gradients[i], expected.gradients[i]);
    }
  }
}

// Only the memory can tell these answers apart.
TEST_F(GpuEncoderTest, AnswersFromMemoriesOfUnseenDocuments) {
  DeviceModel model(testing::SourcePath("tests/goldens/llama"), DType::kF32, kGpu);
  testing::CorpusRunOf learned(model.config, model.weights, model.owned.get(),
                               testing::SettingsOf({.window_tokens = 64}));
  ASSERT_FALSE(learned.Begin("none"));
  learned.Learn();
  EXPECT_GT(learned.run.LookAt(4).memory, 0.9);
}

// The predicted bytes of all adapters of a run are what they take.
TEST_F(GpuEncoderTest, TheSumIsWhatIsTaken) {
  for (const ModelConfig& config : FamilyConfigs({ConfigOf(64, 4, 2)})) {
    SCOPED_TRACE(NameOf(config));
    DeviceModel model(config, DType::kBF16, kGpu);
    std::vector<TrainedShape> shapes = CorpusRun::ShapesOf(testing::SettingsOf({}));
    shapes.push_back({.virtual_tokens = 7});
    for (const TrainedShape& shape : shapes) {
      int64_t expected = 0;
      const int64_t before = AllocatedBytes(kGpu);
      std::unique_ptr<DeviceLora> lora;
      std::unique_ptr<DeviceMasters> prompt;
      if (shape.rank > 0) {
        TrainedLora host(model.config, shape.rank, shape.scale, DType::kBF16);
        lora = std::make_unique<DeviceLora>(host, model.owned.get());
        expected += DeviceAdapterBytes(model.config, shape.rank, DType::kBF16);
      }
      if (shape.virtual_tokens > 0) {
        TrainedPrompt host(model.config, shape.kind, shape.virtual_tokens, DType::kBF16, kGpu);
        prompt = std::make_unique<DeviceMasters>(host, model.owned.get());
        expected +=
            DevicePromptBytes(model.config, shape.kind, shape.virtual_tokens, DType::kBF16, kGpu);
      }
      EXPECT_EQ(AllocatedBytes(kGpu) - before, expected);
    }
  }
}

}  // namespace gpu_encoder_test
}  // namespace graft
