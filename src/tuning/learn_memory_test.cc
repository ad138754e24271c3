#include "tuning/learn_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace graft {
namespace {

ModelConfig SmallConfig() {
  ModelConfig config;
  config.vocab_size = 512;
  config.hidden_size = 64;
  config.intermediate_size = 160;
  config.num_layers = 3;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.context_tokens_max = 256;
  config.SetPlainLayers();
  return config;
}

// A step of four adapters with 100 rows each takes as many rows at once as activations are kept of,
// and at least one adapter's.
TEST(LearnMemoryTest, AStepIsAsLargeAsWhatIsKept) {
  const ModelConfig config = SmallConfig();
  const ServedShape shape = {config, TypesOf(DType::kF32), {}};
  LearnSizes sizes = {.num_adapters = 4, .batch = 4, .example_tokens_max = 25, .rank = 4};
  const int64_t layer_row = LayerActivationBytes(config, DType::kF32, {}, 1);
  for (const int32_t rows : {0, 50, 100, 101, 250, 399, 400, 500}) {
    const int64_t kept = config.num_layers * layer_row * rows;
    sizes.kept_gib = static_cast<double>(kept) / static_cast<double>(int64_t{1} << 30);
    MemorySum sum(shape.device);
    const TrainingLimits limits = PlanTraining(sizes, shape, MemoryBudget({}, 1.0), &sum);
    EXPECT_EQ(limits.rows_max, std::clamp(rows, 100, 400));
    EXPECT_EQ(limits.sequences_max, 16);
    EXPECT_EQ(limits.activation_bytes_max, rows >= 100
                                               ? config.num_layers * layer_row * limits.rows_max
                                               : kept / (100 * layer_row) * 100 * layer_row);
  }
}

// If it is not set how much is kept, what is kept fits, and less memory means smaller groups.
TEST(LearnMemoryTest, WhatIsKeptFits) {
  const ModelConfig config = SmallConfig();
  const ServedShape shape = {config, TypesOf(DType::kF32), {}};
  const LearnSizes sizes = {
      .num_adapters = 64, .batch = 8, .example_tokens_max = 100, .rank = 4, .threads = 1};
  int32_t last = 0;
  for (const double gib : {0.1, 0.2, 0.4, 0.8}) {
    MemorySum sum(shape.device);
    const MemoryBudget budget({}, gib);
    const TrainingLimits limits = PlanTraining(sizes, shape, budget, &sum);
    EXPECT_TRUE(sum.Check(budget).ok()) << sum.ToString();
    EXPECT_GE(limits.activation_bytes_max,
              config.num_layers * LayerActivationBytes(config, DType::kF32, {}, limits.rows_max));
    EXPECT_GT(limits.rows_max, last);
    last = limits.rows_max;
  }
}

// A GPU's attention takes so many sequences at once; the product of a large batch and long windows
// is no small number.
TEST(LearnMemoryTest, AStepsSizesStayWithinWhatKernelsTake) {
  const ServedShape shape = {SmallConfig(), TypesOf(DType::kF32), {}};
  LearnSizes sizes = {.num_adapters = 16, .batch = 256, .example_tokens_max = 17, .rank = 4};
  MemorySum sum(shape.device);
  EXPECT_EQ(PlanTraining(sizes, shape, MemoryBudget({}, 4.0), &sum).sequences_max,
            kTrainingSequencesMax);
  sizes = {.batch = 2048, .example_tokens_max = 1 << 20, .rank = 4};
  const Status fit = FitTraining(sizes, shape, int64_t{1} << 30, MemoryBudget({}, 4.0)).status();
  EXPECT_EQ(fit.code(), StatusCode::kResourceExhausted) << fit.ToString();
}

// Texts take their part of what training has, as far as it is there.
TEST(LearnMemoryTest, TextsArePlanned) {
  const ServedShape shape = {SmallConfig(), TypesOf(DType::kF32), {}};
  LearnSizes sizes = {.batch = 4, .example_tokens_max = 25, .rank = 4, .threads = 1};
  const MemoryBudget budget({}, 4.0);
  constexpr int64_t kGib = int64_t{1} << 30;
  const TrainingFit without = *FitTraining(sizes, shape, kGib, budget);
  EXPECT_EQ(without.data_bytes_max, 0);
  sizes.data.bytes = kGib / 2;
  const TrainingFit half = *FitTraining(sizes, shape, kGib, budget);
  EXPECT_EQ(half.data_bytes_max, kGib / 2);
  EXPECT_LE(half.limits.activation_bytes_max + half.limits.transposed_bytes_max, kGib / 2);
  sizes.data.bytes = 2 * kGib;  // of which less is made
  const TrainingFit twice = *FitTraining(sizes, shape, kGib, budget);
  EXPECT_LT(twice.data_bytes_max, kGib);
  sizes.data.bytes = 16 * kGib;
  const Status none = FitTraining(sizes, shape, kGib, budget).status();
  EXPECT_EQ(none.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(none.message().find("lower questions"), std::string::npos) << none.message();
}

TEST(LearnMemoryTest, AnExampleThatIsLongerThanReckonedIsRefused) {
  LearnerData data;
  data.training.resize(1);
  data.training[0].tokens.resize(25);
  EXPECT_TRUE(CheckExamples(data, {.example_tokens_max = 25}).ok());
  EXPECT_EQ(CheckExamples(data, {.example_tokens_max = 24}).code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace graft
