// One vector of a prompt's hidden states: the same bits however the prompt is cut and whatever else
// is in its steps, on the CPU and on a GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "executor/model_executor.h"
#include "model/model_test_util.h"
#include "model/test_session.h"

namespace graft {
namespace {

constexpr int32_t kTokens = 90;

double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double dot = 0.0, norm_a = 0.0, norm_b = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += double{a[i]} * double{b[i]};
    norm_a += double{a[i]} * double{a[i]};
    norm_b += double{b[i]} * double{b[i]};
  }
  return dot / std::sqrt(norm_a * norm_b);
}

class EmbeddingTest : public ::testing::TestWithParam<std::tuple<DeviceKind, DType>> {
 protected:
  void SetUp() override {
    UseDevice(std::get<0>(GetParam()));
    if (!device_->exists()) GTEST_SKIP() << "this machine shows no GPU";
    LoadModel();
  }
  void UseDevice(DeviceKind kind) { device_ = std::make_unique<testing::TestDevice>(kind); }
  void LoadModel() {
    const std::string dir = testing::SourcePath("demo/base");
    config_ = *LoadModelConfig(dir);
    const ServedTypes types = TypesOf(std::get<1>(GetParam()), device_->stream().device);
    weights_ = std::move(*LoadWeights(dir, config_, types, device_->stream()));
  }

  // A prompt of ends.back() tokens in slot 0, in chunks that end at `ends`, beside another sequence
  // in slot 1.
  std::vector<float> Run(RowPooling pooling, const std::vector<int32_t>& ends,
                         bool has_neighbour = false, int32_t logits_rows_max = 16) {
    KvPool pool(MakeKvLayout(config_, 128, weights_.types.kv), 2, device_->stream().device);
    Transformer transformer(config_, weights_, pool,
                            TransformerLimits{.step_tokens_max = 2 * kTokens,
                                              .logits_rows_max = logits_rows_max,
                                              .sequences_max = 2,
                                              .context_tokens_max = 128},
                            device_->stream());
    ExecutorLimits limits;
    limits.sequences_max = 2;
    limits.step_tokens_max = 2 * kTokens;
    limits.context_tokens_max = 128;
    limits.num_pages = 2;
    limits.page_tokens = 128;
    limits.vocab_size = config_.vocab_size;
    ModelExecutor executor(transformer, nullptr, limits, device_->stream());
    SequenceResult last;
    int32_t begin = 0;
    for (const int32_t end : ends) {
      StepPlan plan;
      if (has_neighbour) Add(1, begin, end, ends.back(), RowPooling::kNone, &plan);
      Add(0, begin, end, ends.back(), pooling, &plan);
      last = executor.Run(plan).sequences.back();
      EXPECT_EQ(last.embedding.empty(), end != ends.back());
      begin = end;
    }
    return last.embedding;
  }

  void Add(int32_t slot, int32_t begin, int32_t end, int32_t num_prompt, RowPooling pooling,
           StepPlan* plan) const {
    std::vector<int32_t> prompt(num_prompt);
    for (int32_t i = 0; i < num_prompt; ++i) prompt[i] = (1 + slot + i * 977) % config_.vocab_size;
    if (begin == 0) plan->starts.push_back({.sequence_slot = slot, .prompt_tokens = prompt});
    plan->sequences.push_back({.sequence_slot = slot,
                               .token_begin = static_cast<int32_t>(plan->tokens.size()),
                               .num_tokens = end - begin,
                               .num_prompt_rows = end - begin,
                               .position_begin = begin,
                               .page_begin = static_cast<int32_t>(plan->pages.size()),
                               .num_pages = 1,
                               .pooling = pooling});
    plan->pages.push_back(slot);
    plan->tokens.insert(plan->tokens.end(), prompt.begin() + begin, prompt.begin() + end);
  }

  std::unique_ptr<testing::TestDevice> device_;  // outlives the weights on it
  ModelConfig config_;
  ModelWeights weights_;
};

TEST_P(EmbeddingTest, ChunksAndNeighboursChangeNoBit) {
  for (const RowPooling pooling : {RowPooling::kLast, RowPooling::kMean}) {
    const std::vector<float> whole = Run(pooling, {kTokens});
    ASSERT_EQ(whole.size(), static_cast<size_t>(config_.hidden_size));
    EXPECT_EQ(Run(pooling, {1, 38, kTokens}), whole);
    EXPECT_EQ(Run(pooling, {37, kTokens}, /*has_neighbour=*/true), whole);
    EXPECT_EQ(Run(pooling, {kTokens}, false, /*logits_rows_max=*/2 * kTokens), whole);
  }
  EXPECT_NE(Run(RowPooling::kLast, {kTokens}), Run(RowPooling::kMean, {kTokens}));
}

// A row knows nothing of what follows it, so rows are the last rows of the prompt's beginnings.
TEST_P(EmbeddingTest, TheMeanIsThatOfAllRows) {
  constexpr int32_t kFewTokens = 11;
  std::vector<double> sums(static_cast<size_t>(config_.hidden_size));
  for (int32_t num_tokens = 1; num_tokens <= kFewTokens; ++num_tokens) {
    const std::vector<float> last = Run(RowPooling::kLast, {num_tokens});
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += last[i];
  }
  const std::vector<float> mean = Run(RowPooling::kMean, {kFewTokens});
  ASSERT_EQ(mean.size(), sums.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    EXPECT_EQ(mean[i], static_cast<float>(sums[i] / kFewTokens)) << i;
  }
}

// But for what their sums round differently.
class GpuEmbeddingTest : public EmbeddingTest {};

TEST_P(GpuEmbeddingTest, IsTheCpus) {
  const auto both = [&] {
    return std::pair(Run(RowPooling::kLast, {kTokens}), Run(RowPooling::kMean, {kTokens}));
  };
  const auto [last, mean] = both();
  weights_ = {};
  UseDevice(DeviceKind::kCpu);
  LoadModel();
  const auto [cpu_last, cpu_mean] = both();
  const double least = std::get<1>(GetParam()) == DType::kF32 ? 0.999999 : 0.999;
  EXPECT_GT(Cosine(last, cpu_last), least);
  EXPECT_GT(Cosine(mean, cpu_mean), least);
}

INSTANTIATE_TEST_SUITE_P(Devices, EmbeddingTest,
                         ::testing::Values(std::tuple(DeviceKind::kCpu, DType::kF32),
                                           std::tuple(DeviceKind::kCpu, DType::kBF16),
                                           std::tuple(DeviceKind::kCuda, DType::kF32),
                                           std::tuple(DeviceKind::kCuda, DType::kBF16)));
INSTANTIATE_TEST_SUITE_P(Devices, GpuEmbeddingTest,
                         ::testing::Values(std::tuple(DeviceKind::kCuda, DType::kF32),
                                           std::tuple(DeviceKind::kCuda, DType::kBF16)));

}  // namespace
}  // namespace graft
