// What the tests of learning share: a model folder loaded in a dtype, adapters read into a Trainer,
// and tensors of golden files. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "adapters/peft_config.h"
#include "base/file.h"
#include "kernels/gemm/gemm.h"
#include "kernels/soft_cap/soft_cap.h"
#include "learn/trainer.h"
#include "model/model_test_util.h"
#include "model/safetensors.h"
#include "model/shard.h"

namespace graft::testing {

struct LearnModel {
  LearnModel(const std::string& dir, DType dtype)
      : config(*LoadModelConfig(dir)), weights(*LoadWeights(dir, config, TypesOf(dtype), stream)) {}

  ThreadPool threads{2};
  Stream stream{.device = {}, .cpu_threads = &threads};
  ModelConfig config;
  ModelWeights weights;
};

inline LoraWeights ReadLora(const std::string& dir, const ModelConfig& config, DType dtype) {
  const std::string json = *ReadFile(dir + "/adapter_config.json");
  const SafetensorsFile file = *SafetensorsFile::Open(dir + "/adapter_model.safetensors");
  Result<LoraWeights> weights = LoraWeights::Load(file, *ParsePeftConfig(json), config, dtype);
  CHECK(weights.ok()) << weights.status().ToString();
  return std::move(*weights);
}

inline std::vector<const TrainingExample*> PointersTo(std::span<const TrainingExample> examples) {
  std::vector<const TrainingExample*> pointers;
  for (const TrainingExample& example : examples) pointers.push_back(&example);
  return pointers;
}

// The head's logits of these rows, from the states that the device makes: [rows, vocab].
inline std::vector<float> LogitsOf(LearnModel& model, TrainingDevice& device,
                                   const TrainingBatch& batch, std::span<const int32_t> rows) {
  const auto hidden = static_cast<size_t>(model.config.hidden_size);
  const auto vocab = static_cast<size_t>(model.config.vocab_size);
  std::vector<float> states(rows.size() * hidden), logits(rows.size() * vocab);
  device.TakeStates(batch, rows, states.data());
  Gemm({.x = states.data(),
        .x_stride = model.config.hidden_size,
        .m = static_cast<int64_t>(rows.size()),
        .weight = &model.weights.lm_head,
        .y = logits.data(),
        .y_stride = model.config.vocab_size,
        .epilogue = {.bias = model.weights.lm_head_bias.as<float>()},
        .x_is_fp32 = true},
       model.stream);
  const float cap = model.config.logit_cap;
  for (float& logit : logits) logit *= model.config.logit_scale;
  if (cap != 0.0f) {
    SoftCap({.x = logits.data(), .n = std::ssize(logits), .cap = cap}, model.stream);
  }
  return logits;
}

template <typename T>
std::vector<T> GoldenValues(const SafetensorsFile& file, const std::string& name) {
  const Result<std::span<const char>> bytes = file.Bytes(name);
  CHECK(bytes.ok()) << bytes.status().ToString();
  std::vector<T> values(bytes->size() / sizeof(T));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

// Examples of labels as HF shifts them: row i learns to say labels[i + 1], and -100 is ignored.
inline std::vector<TrainingExample> GoldenExamples(const SafetensorsFile& golden, int64_t columns) {
  const auto tokens = GoldenValues<int32_t>(golden, "input_ids");
  const auto labels = GoldenValues<int32_t>(golden, "labels");
  std::vector<TrainingExample> examples;
  for (size_t begin = 0; begin < tokens.size(); begin += static_cast<size_t>(columns)) {
    TrainingExample example;
    for (size_t i = begin; i < begin + static_cast<size_t>(columns); ++i) {
      example.tokens.push_back(tokens[i]);
      if (i == begin || labels[i] == -100) continue;
      example.rows.push_back(static_cast<int32_t>(i - begin) - 1);
      example.ids.push_back(labels[i]);
      example.probabilities.push_back(1.0f);
    }
    examples.push_back(std::move(example));
  }
  return examples;
}

// The largest difference between a matrix and the golden one, by the golden one's largest number. A
// file holds B, with its rows as the checkpoint stores them, training its transpose.
inline double RelativeError(const ModelConfig& config, TrainedLora& lora,
                            std::span<const float> all, const SafetensorsFile& golden,
                            const std::string& prefix, int32_t layer, LoraModule target,
                            LoraSide side) {
  const StoredProjection& stored = StoredProjections(config)[static_cast<size_t>(target)];
  std::string name = LoraTensorName(config, layer, stored.first, side);
  name.insert(name.size() - std::string("weight").size(), "default.");
  const std::vector<float> expected = GoldenValues<float>(golden, prefix + name);
  const TrainedLora::Place place = lora.place(layer, target, side);
  const int64_t rank = lora.rank();
  CHECK_EQ(static_cast<int64_t>(expected.size()), rank * place.n);
  const std::vector<int64_t> rows = StoredRowsOf(config, stored);
  double largest = 0.0, error = 0.0;
  for (int64_t j = 0; j < rank; ++j) {
    for (int64_t i = 0; i < place.n; ++i) {
      const int64_t at =
          side == LoraSide::kA ? j * place.n + i : rows[static_cast<size_t>(i)] * rank + j;
      const double golden_value = expected[static_cast<size_t>(at)];
      const double got = all[static_cast<size_t>(place.begin + j * place.n + i)];
      largest = std::max(largest, std::fabs(golden_value));
      error = std::max(error, std::fabs(got - golden_value));
    }
  }
  return error / largest;
}

inline double WorstError(const ModelConfig& config, TrainedLora& lora, std::span<const float> all,
                         const SafetensorsFile& golden, const std::string& prefix) {
  double worst = 0.0;
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (const LoraModule target : lora.shape().lora_modules()) {
      for (const LoraSide side : {LoraSide::kA, LoraSide::kB}) {
        worst =
            std::max(worst, RelativeError(config, lora, all, golden, prefix, layer, target, side));
      }
    }
  }
  return worst;
}

// The folders of tests/goldens/gradients.
inline constexpr const char* kFamiliesWithGradients[] = {"qwen2",         "qwen2-yarn",
                                                         "qwen3",         "mistral-window",
                                                         "gemma",         "gemma2",
                                                         "gemma3",        "smollm3",
                                                         "granite",       "olmo2",
                                                         "olmo3",         "exaone4",
                                                         "phi3-longrope", "phi3-partial-rotary",
                                                         "glm",           "glm4",
                                                         "gpt2",          "gpt-neo",
                                                         "gpt-neox",      "gpt-neox-serial",
                                                         "phi",           "starcoder2"};

// The loss and the gradients of the family's golden model are PyTorch's and PEFT's.
inline void ExpectGoldenGradients(const std::string& name, const ModelConfig& config,
                                  const ModelWeights& weights, int64_t activation_bytes,
                                  Stream& stream, double error_max) {
  const std::string dir = SourcePath("tests/goldens/gradients/" + name);
  const SafetensorsFile golden = *SafetensorsFile::Open(dir + "/golden.safetensors");
  Trainer trainer(config, weights,
                  {.rows_max = 32,
                   .sequences_max = 1,
                   .rank_max = 2,
                   .logits_rows_max = 7,
                   .activation_bytes_max = activation_bytes},
                  stream);
  TrainedLora& lora = trainer.adapter(trainer.Add(2, 2.0f));
  const Status read = lora.Read(ReadLora(dir, config, DType::kF32));
  ASSERT_TRUE(read.ok()) << read.ToString();
  const std::vector<TrainingExample> examples = GoldenExamples(golden, 24);
  const TrainingLoss loss = trainer.Accumulate(PointersTo(examples))[0];
  EXPECT_NEAR(loss.tokens, GoldenValues<float>(golden, "losses")[0], 10 * error_max);
  TrainedLora& learned = trainer.adapter(0);
  EXPECT_LT(WorstError(config, learned, learned.gradients(), golden, "grad."), error_max);
}

}  // namespace graft::testing
