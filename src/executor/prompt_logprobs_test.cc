// Log-probabilities of a prompt with more rows than have logits at once: the same bits as with
// logits for all rows, on the CPU and on a GPU.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "adapters/adapter_test_util.h"
#include "base/clock.h"
#include "base/device_turns.h"
#include "executor/model_executor.h"
#include "layers/lora_store.h"
#include "model/model_test_util.h"
#include "model/test_session.h"
#include "tensor/stream_turns.h"

namespace graft {
namespace {

constexpr int32_t kPromptTokens = 100;

class PromptLogprobsTest : public ::testing::TestWithParam<std::tuple<DeviceKind, DType>> {
 protected:
  void SetUp() override {
    if (!device_.exists()) GTEST_SKIP() << "this machine shows no GPU";
    const std::string dir = testing::SourcePath("demo/base");
    config_ = *LoadModelConfig(dir);
    const ServedTypes types = TypesOf(std::get<1>(GetParam()), device_.stream().device);
    weights_ = std::move(*LoadWeights(dir, config_, types, device_.stream()));
    // LoRA of q and of the head.
    const PeftConfig peft = testing::Peft(R"("target_modules": ["q_proj", "lm_head"])");
    const SafetensorsFile file = testing::FileOf(testing::LoraTestTensors(peft, config_));
    loras_ = std::make_unique<LoraStore>(config_, 1, device_.stream().device);
    loras_->Set(0, LoraWeights::Load(file, peft, config_, types.adapters).value().TakeRows());
  }

  // Runs two whole prompts in one step, the first of them in two chunks. The second has the
  // adapter.
  std::vector<SequenceResult> Run(int32_t logits_rows_max, const ExecutorParts& parts = {}) {
    KvPool pool(MakeKvLayout(config_, 128, weights_.types.kv), 2, device_.stream().device);
    Transformer transformer(config_, weights_, pool,
                            TransformerLimits{.step_tokens_max = 2 * kPromptTokens,
                                              .logits_rows_max = logits_rows_max,
                                              .sequences_max = 2,
                                              .context_tokens_max = 128},
                            device_.stream());
    ExecutorLimits limits;
    limits.sequences_max = 2;
    limits.step_tokens_max = 2 * kPromptTokens;
    limits.context_tokens_max = 128;
    limits.num_pages = 2;
    limits.page_tokens = 128;
    limits.vocab_size = config_.vocab_size;
    limits.adapters_max = 1;
    ModelExecutor executor(transformer, loras_.get(), limits, device_.stream(), parts);
    std::vector<SequenceResult> results;
    for (const int32_t begin : {0, 37}) {
      StepPlan plan;
      plan.step_id = static_cast<uint64_t>(begin);
      Add(0, begin, begin == 0 ? 37 : kPromptTokens - 37, &plan);
      if (begin == 0) Add(1, 0, kPromptTokens, &plan);
      for (SequenceResult& result : executor.Run(plan).sequences) {
        results.push_back(std::move(result));
      }
    }
    return results;
  }

  void Add(int32_t slot, int32_t begin, int32_t num_tokens, StepPlan* plan) const {
    std::vector<int32_t> prompt;
    for (int32_t i = 0; i < kPromptTokens; ++i) {
      prompt.push_back((1 + slot + i * 977) % config_.vocab_size);
    }
    if (begin == 0) {
      plan->starts.push_back(
          {.sequence_slot = slot, .sampling = {.num_logprobs = 3}, .prompt_tokens = prompt});
    }
    plan->sequences.push_back({.sequence_slot = slot,
                               .adapter_slot = slot == 1 && has_adapter_ ? 0 : kNoAdapter,
                               .token_begin = static_cast<int32_t>(plan->tokens.size()),
                               .num_tokens = num_tokens,
                               .num_prompt_rows = num_tokens,
                               .position_begin = begin,
                               .page_begin = static_cast<int32_t>(plan->pages.size()),
                               .num_pages = 1,
                               .samples = begin + num_tokens == kPromptTokens,
                               .prompt_logprobs = true});
    plan->pages.push_back(slot);
    plan->tokens.insert(plan->tokens.end(), prompt.begin() + begin,
                        prompt.begin() + begin + num_tokens);
  }

  testing::TestDevice device_{std::get<0>(GetParam())};
  ModelConfig config_;
  ModelWeights weights_;
  std::unique_ptr<LoraStore> loras_;
  bool has_adapter_ = true;
};

TEST_P(PromptLogprobsTest, ManyBatchesGiveTheBitsOfOne) {
  const std::vector<SequenceResult> whole = Run(2 * kPromptTokens);
  ASSERT_EQ(whole.size(), 3u);
  EXPECT_EQ(whole[0].prompt_logprobs.size(), 37u);
  EXPECT_EQ(whole[1].prompt_logprobs.size(), size_t{kPromptTokens} - 1);
  EXPECT_EQ(whole[2].prompt_logprobs.size(), size_t{kPromptTokens} - 37 - 1);
  has_adapter_ = false;
  const std::vector<SequenceResult> base = Run(2 * kPromptTokens);
  has_adapter_ = true;
  for (const size_t i : {0, 1, 2}) {
    EXPECT_EQ(whole[i].prompt_logprobs[3].logprob == base[i].prompt_logprobs[3].logprob, i != 1);
  }
  for (const int32_t rows_max : {2, 7, 50, 99}) {
    SCOPED_TRACE(rows_max);
    const std::vector<SequenceResult> parts = Run(rows_max);
    for (size_t i = 0; i < whole.size(); ++i) {
      ASSERT_EQ(parts[i].prompt_logprobs.size(), whole[i].prompt_logprobs.size());
      EXPECT_EQ(parts[i].token, whole[i].token);
      for (size_t row = 0; row < whole[i].prompt_logprobs.size(); ++row) {
        EXPECT_EQ(parts[i].prompt_logprobs[row].token, whole[i].prompt_logprobs[row].token);
        EXPECT_EQ(parts[i].prompt_logprobs[row].logprob, whole[i].prompt_logprobs[row].logprob);
        ASSERT_EQ(parts[i].prompt_top_logprobs[row].size(), 3u);
        for (size_t top = 0; top < 3; ++top) {
          EXPECT_EQ(parts[i].prompt_top_logprobs[row][top].token,
                    whole[i].prompt_top_logprobs[row][top].token);
        }
      }
    }
  }
}

// Beside training a step's time is asked for, which has a new end once log-probabilities are there.
TEST_P(PromptLogprobsTest, AStepIsTimedToItsNewEnd) {
  const std::vector<SequenceResult> whole = Run(7);
  OwnedStream pieces(device_.stream().device, nullptr, /*yields=*/true);
  StreamTurns marks(device_.stream(), pieces.get());
  DeviceTurns turns(0.5, marks, SteadyClock::Get());
  const std::vector<SequenceResult> timed = Run(7, {.device_turns = &turns});
  ASSERT_EQ(timed.size(), whole.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    ASSERT_EQ(timed[i].prompt_logprobs.size(), whole[i].prompt_logprobs.size());
    EXPECT_EQ(timed[i].prompt_logprobs.back().logprob, whole[i].prompt_logprobs.back().logprob);
  }
  EXPECT_EQ(turns.is_busy(), !device_.stream().device.is_cpu()) << "a GPU's steps take turns";
}

INSTANTIATE_TEST_SUITE_P(Devices, PromptLogprobsTest,
                         ::testing::Values(std::tuple(DeviceKind::kCpu, DType::kF32),
                                           std::tuple(DeviceKind::kCuda, DType::kBF16)),
                         [](const auto& info) {
                           return std::get<0>(info.param) == DeviceKind::kCpu ? std::string("cpu")
                                                                              : std::string("cuda");
                         });

}  // namespace
}  // namespace graft
