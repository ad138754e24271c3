#include "learn/training_sizes.h"

#include <gtest/gtest.h>

#include "learn/test_model.h"
#include "learn/training_walker.h"
#include "tensor/allocations.h"

namespace graft {
namespace training_sizes_test {

using testing::LearnModel;
using testing::SourcePath;

void ExpectTheSum(const std::string& name, DType dtype) {
  LearnModel model(SourcePath("tests/goldens/" + name), dtype);
  const int64_t layer = LayerActivationBytes(model.config, dtype, {}, 100);
  const int64_t transposed = LayerTransposedBytes(model.config, dtype, {});
  for (const int64_t layers : {0, 1, 100}) {
    const TrainingLimits limits{.rows_max = 100,
                                .sequences_max = 3,
                                .rank_max = 5,
                                .logits_rows_max = 7,
                                .chooses = layers == 1,
                                .activation_bytes_max = layers * layer,
                                .transposed_bytes_max = layers * transposed};
    const TrainingSizes sizes =
        SizesOf(limits, model.config, dtype, {}, model.threads.num_threads());
    const int64_t before = AllocatedBytes({});
    const TrainingWalker walker(model.config, model.weights, limits, model.stream);
    EXPECT_EQ(walker.num_kept_layers(), std::min<int64_t>(layers, model.config.num_layers));
    EXPECT_EQ(walker.num_transposed_layers(), std::min<int64_t>(layers, model.config.num_layers));
    // Transposes are made only in a backward.
    EXPECT_EQ(AllocatedBytes({}) - before,
              sizes.total() - sizes.made_transposed - sizes.thread_rows);
  }
}

TEST(TrainingSizesTest, TheSumIsWhatIsTaken) {
  for (const char* const name : {"llama", "qwen3", "gemma2", "olmo2", "granite", "phi3-longrope"}) {
    SCOPED_TRACE(name);
    for (const DType dtype : {DType::kF32, DType::kBF16}) ExpectTheSum(name, dtype);
  }
}

// A backward takes no more than the sum, whatever it has to make.
TEST(TrainingSizesTest, ABackwardStaysWithinTheSum) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kF32);
  const TrainingLimits limits{.rows_max = 40, .sequences_max = 1, .rank_max = 4};
  const TrainingSizes sizes = SizesOf(limits, model.config, DType::kF32, {}, 2);
  const int64_t bytes =
      sizes.total() - sizes.thread_rows + TrainedLora::BytesFor(model.config, 4, DType::kF32);
  const AllocationLimit limit({}, bytes);
  Trainer trainer(model.config, model.weights, limits, model.stream);
  trainer.adapter(trainer.Add(4, 1.0f)).Initialize(1);
  const TrainingExample example = NextTokenExample(std::vector<int32_t>(40, 7), 0);
  const TrainingExample* const one[] = {&example};
  EXPECT_GT(trainer.Accumulate(one)[0].tokens, 0.0);
}

// An adapter that learns takes sixteen bytes per parameter, and its copy.
TEST(TrainingSizesTest, AnAdaptersSumIsItsVectors) {
  const ModelConfig config = *LoadModelConfig(SourcePath("tests/goldens/llama"));
  TrainedLora lora(config, 3, 1.0f, DType::kBF16);
  const auto parameters = static_cast<int64_t>(lora.parameters().size());
  const int64_t bytes = TrainedLora::BytesFor(config, 3, DType::kBF16);
  EXPECT_GE(bytes, 18 * parameters);
  EXPECT_LE(bytes, 24 * parameters) << "rows begin at multiples of 64 bytes";
}

}  // namespace training_sizes_test
}  // namespace graft
