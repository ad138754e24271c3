// What the tests of training on a GPU share: models on a device, examples, steps of several
// adapters, and how near two gradients are. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/token_loss/token_loss.h"
#include "learn/test_model.h"
#include "model/family.h"
#include "tensor/cuda_memory.h"

namespace graft::testing {

inline constexpr double kErrorMax = 1e-4;  // bound on errors in fp32

// A model of random weights, or a folder's, on a device.
struct DeviceModel {
  DeviceModel(const ModelConfig& model_config, DType dtype, const Device& device)
      : owned(device, &threads),
        config(model_config),
        weights(RandomWeights(config, TypesOf(dtype, device), /*seed=*/7, owned.get())) {}
  DeviceModel(const std::string& dir, DType dtype, const Device& device)
      : owned(device, &threads),
        config(*LoadModelConfig(dir)),
        weights(*LoadWeights(dir, config, TypesOf(dtype, device), owned.get())) {}

  ThreadPool threads{2};
  OwnedStream owned;
  ModelConfig config;
  ModelWeights weights;
};

inline const Device kGpu{DeviceKind::kCuda, 0};

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (NumCudaDevices() == 0) GTEST_SKIP() << "no GPU here";
  }
};

inline ModelConfig ConfigOf(int32_t head_dim, int32_t num_heads, int32_t num_kv_heads) {
  ModelConfig config;
  config.vocab_size = 520;
  config.hidden_size = 192;
  config.intermediate_size = 328;
  config.num_layers = 3;
  config.num_heads = num_heads;
  config.num_kv_heads = num_kv_heads;
  config.head_dim = head_dim;
  config.context_tokens_max = 512;
  config.SetPlainLayers();
  for (LayerSpec& layer : config.layers) {
    layer.attention_scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  }
  return config;
}

// Layers as these families have them: norms of heads and windows; caps, GeGLU and norms of outputs;
// norms over all heads and of outputs alone; queries that grow with their positions; multipliers;
// stacked projections; neighbours that turn
// in part, gate and up stacked alone; LayerNorm, plain MLPs, biases, of one norm or two in
// parallel, learned positions.
inline ModelConfig Qwen3Config() {
  ModelConfig config = ConfigOf(128, 2, 1);
  config.architecture = Architecture::kQwen3;
  for (LayerSpec& layer : config.layers) layer.qk_norm = true;
  config.layers[1].window = 20;
  return config;
}

inline ModelConfig Gemma2Config() {
  ModelConfig config = ConfigOf(256, 2, 1);
  config.architecture = Architecture::kGemma2;
  config.logit_cap = 8.0f;
  for (LayerSpec& layer : config.layers) {
    layer.output_norms = true;
    layer.score_cap = 5.0f;
    layer.activation = Activation::kGeluTanh;
  }
  config.layers[0].window = 40;
  return config;
}

inline ModelConfig Olmo2Config() {
  ModelConfig config = ConfigOf(64, 4, 2);
  config.architecture = Architecture::kOlmo2;
  for (LayerSpec& layer : config.layers) {
    layer.qk_norm = layer.qk_norm_across_heads = true;
    layer.input_norms = false;
    layer.output_norms = true;
  }
  return config;
}

inline ModelConfig Ministral3Config() {
  ModelConfig config = ConfigOf(128, 2, 1);
  config.architecture = Architecture::kMinistral3;
  config.ropes[0] = {
      .scaling = RopeScaling::kYarn, .factor = 4.0, .original_tokens = 16, .query_beta = 0.3};
  return config;
}

inline ModelConfig GraniteConfig() {
  ModelConfig config = ConfigOf(64, 4, 2);
  config.architecture = Architecture::kGranite;
  config.hidden_scale = 3.0f;
  config.logit_scale = 0.5f;
  for (LayerSpec& layer : config.layers) layer.residual_scale = 0.3f;
  return config;
}

inline ModelConfig Phi3Config() {
  ModelConfig config = ConfigOf(96, 4, 2);
  config.architecture = Architecture::kPhi3;
  return config;
}

inline ModelConfig Glm4Config() {
  ModelConfig config = ConfigOf(128, 2, 1);
  config.architecture = Architecture::kGlm4;
  config.rope_interleaved = true;
  config.rotary_dim = 64;
  config.qkv_bias = true;
  for (LayerSpec& layer : config.layers) layer.output_norms = true;
  return config;
}

// As the family's own file has it, but for what a config.json says.
inline ModelConfig PlainMlpConfig(Architecture architecture, int32_t head_dim, Activation f) {
  ModelConfig config = ConfigOf(head_dim, 4, 4);
  config.architecture = architecture;
  config.lora_targets = FamilyOf(architecture).lora_targets;
  config.norm = NormKind::kLayer;
  config.gated_mlp = false;
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  for (LayerSpec& layer : config.layers) layer.activation = f;
  return config;
}

inline ModelConfig PhiConfig() {
  ModelConfig config = PlainMlpConfig(Architecture::kPhi, 80, Activation::kGeluTanh);
  config.rotary_dim = 32;
  config.head_bias = true;
  for (LayerSpec& layer : config.layers) layer.parallel = layer.shares_norm = true;
  return config;
}

inline ModelConfig GptNeoXConfig() {
  ModelConfig config = PlainMlpConfig(Architecture::kGptNeoX, 64, Activation::kGelu);
  config.rotary_dim = 16;
  for (LayerSpec& layer : config.layers) layer.parallel = true;
  return config;
}

inline ModelConfig Gpt2Config() {
  ModelConfig config = PlainMlpConfig(Architecture::kGpt2, 64, Activation::kGeluTanh);
  config.num_positions = config.context_tokens_max;
  config.ropes = {{.scaling = RopeScaling::kNoRotation}};
  return config;
}

// The plain ones, and one of each of these families.
inline std::vector<ModelConfig> FamilyConfigs(std::vector<ModelConfig> plain) {
  for (ModelConfig (*const config)() :
       {Qwen3Config, Gemma2Config, Olmo2Config, Ministral3Config, GraniteConfig, Phi3Config,
        Glm4Config, PhiConfig, GptNeoXConfig, Gpt2Config}) {
    plain.push_back(config());
  }
  return plain;
}

inline std::string NameOf(const ModelConfig& config) {
  return std::string(ArchitectureName(config.architecture)) + ", heads of " +
         std::to_string(config.head_dim);
}

inline TrainingExample RandomExample(int32_t num_tokens, int32_t adapter, uint64_t seed) {
  Random random(seed);
  std::vector<int32_t> tokens(static_cast<size_t>(num_tokens));
  for (int32_t& token : tokens) token = static_cast<int32_t>(random.Below(500));
  return NextTokenExample(std::move(tokens), adapter);
}

// Top-3 targets at every second row. Their probabilities leave some for other tokens. In every
// other of these rows the third target stands for all other tokens, as in distill.
inline TrainingExample ChoicesExample(int32_t num_tokens, int32_t adapter, uint64_t seed) {
  TrainingExample example = RandomExample(num_tokens, adapter, seed);
  Random random(seed + 1);
  example.num_choices = 3;
  example.rows.clear();
  example.ids.clear();
  example.probabilities.clear();
  for (int32_t row = 0; row < num_tokens; row += 2) {
    example.rows.push_back(row);
    for (int32_t k = 0; k < 3; ++k) {
      const bool is_rest = k == 2 && row % 4 == 2;
      const auto id = static_cast<int32_t>(random.Below(170)) * 3 + k;
      example.ids.push_back(is_rest ? kTokenRest : id);
      example.probabilities.push_back(is_rest ? 0.4f : 0.4f / static_cast<float>(1 + k));
    }
  }
  return example;
}

inline TrainingLimits LimitsOf(int64_t activation_bytes, int64_t transposed_bytes = 0) {
  return {.rows_max = 512,
          .sequences_max = 8,
          .prefix_tokens_max = 37,
          .rank_max = 20,
          .logits_rows_max = 100,
          .activation_bytes_max = activation_bytes,
          .transposed_bytes_max = transposed_bytes};
}

inline constexpr int64_t kAll = int64_t{1} << 32;

// Random numbers with B not zero, unlike a fresh adapter's.
inline void Fill(TrainedLora& lora, uint64_t seed) {
  lora.Initialize(seed);
  Random random(seed);
  for (float& p : lora.parameters()) p += static_cast<float>(random.Normal() * 0.02);
  lora.Refresh();
}

inline void Fill(TrainedPrompt& prompt, uint64_t seed) {
  Random random(seed);
  for (float& p : prompt.parameters()) p += static_cast<float>(random.Normal() * 0.1);
  prompt.Refresh();
}

// What training made, one element per adapter. A part that an adapter lacks is empty.
struct Trained {
  std::vector<TrainingLoss> losses;
  std::vector<std::vector<float>> gradients, parameters;  // of LoRA
  std::vector<std::vector<float>> prompt_gradients, prompt_parameters;
};

// The gradients of these examples, and the adapters after `updates` steps.
inline Trained TrainShapes(DeviceModel& model, const TrainingLimits& limits,
                           std::span<const TrainedShape> shapes,
                           const std::vector<TrainingExample>& examples, int updates = 0,
                           DeviceTurns* turns = nullptr) {
  Trainer trainer(model.config, model.weights, limits, model.owned.get(), {}, turns);
  const std::vector<int32_t> text = RandomExample(80, 0, 99).tokens;
  std::vector<Trainer::Update> steps;
  for (const TrainedShape& shape : shapes) {
    const int32_t i = trainer.Add(shape);
    if (shape.rank > 0) Fill(*trainer.lora(i), static_cast<uint64_t>(i));
    if (shape.virtual_tokens > 0) {
      trainer.BeginPrompt(i, text);
      Fill(*trainer.prompt(i), static_cast<uint64_t>(i));
    }
    const bool learns = std::ranges::any_of(
        examples, [&](const TrainingExample& example) { return example.adapter == i; });
    if (!learns) continue;
    const auto times = static_cast<float>(1 + i);
    steps.push_back({i, {.learning_rate = 1e-3f * times}, {.learning_rate = 2e-2f * times}});
  }
  Trained all;
  all.losses = trainer.Accumulate(PointersTo(examples));
  for (int update = 0; update < updates; ++update) {
    trainer.Apply(steps);
    all.losses = trainer.Accumulate(PointersTo(examples));
  }
  for (int32_t i = 0; i < static_cast<int32_t>(shapes.size()); ++i) {
    const auto copy = [](auto* trained, auto& gradients, auto& parameters) {
      gradients.emplace_back();
      parameters.emplace_back();
      if (trained == nullptr) return;
      gradients.back().assign(trained->gradients().begin(), trained->gradients().end());
      parameters.back().assign(trained->parameters().begin(), trained->parameters().end());
    };
    copy(trainer.lora(i), all.gradients, all.parameters);
    copy(trainer.prompt(i), all.prompt_gradients, all.prompt_parameters);
  }
  return all;
}

// In fp32 the error is within 1e-4 of the largest number.
inline void ExpectNear(std::span<const float> actual, std::span<const float> expected) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0.0, error = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto value = static_cast<double>(expected[i]);
    largest = std::max(largest, std::fabs(value));
    error = std::max(error, std::fabs(static_cast<double>(actual[i]) - value));
  }
  EXPECT_LE(error, kErrorMax * largest);
}

// In bf16 the vector points the same way and is as long.
inline void ExpectPointsAlong(std::span<const float> actual, std::span<const float> expected) {
  ASSERT_EQ(actual.size(), expected.size());
  double along = 0.0, own = 0.0, theirs = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto a = static_cast<double>(actual[i]);
    const auto e = static_cast<double>(expected[i]);
    along += a * e;
    own += a * a;
    theirs += e * e;
  }
  EXPECT_GE(along / std::sqrt(own * theirs), 0.999);
  EXPECT_NEAR(std::sqrt(own / theirs), 1.0, 0.02);
}

// Calls the function for each matrix with its place among an adapter's numbers.
template <typename Function>
void ForEachMatrix(const ModelConfig& config, int32_t rank, const Function& function) {
  const TrainedLora lora(config, rank, 1.0f, DType::kF32);
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (const LoraModule target : lora.shape().lora_modules()) {
      for (const LoraSide side : {LoraSide::kA, LoraSide::kB}) {
        const TrainedLora::Place place = lora.place(layer, target, side);
        SCOPED_TRACE("layer " + std::to_string(layer) + ", " +
                     std::string(lora.shape().lora_target(target).name) +
                     (side == LoraSide::kA ? " A" : " B"));
        function(static_cast<size_t>(place.begin), static_cast<size_t>(place.n * rank));
      }
    }
  }
}

}  // namespace graft::testing
