// Adapters with virtual tokens in front of every prompt, as embeddings that are computed and as
// keys and values that are not.
#include <gmock/gmock.h>

#include <cmath>

#include "engine/engine_testing.h"

namespace graft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int32_t kVirtual = 6;  // a page and a half

class VirtualTokensTest : public EngineAdapterTest, public testing::WithParamInterface<bool> {
 protected:
  bool has_kv() const { return GetParam(); }
  void MakeTuned(const ExecutorLimits& limits = TestLimits(),
                 const EngineOptions& options = TestOptions()) {
    Make(limits, options);
    harness_->AddAdapter("tuned");
    harness_->loader.SetVirtualTokens("tuned", kVirtual, has_kv());
  }
  // Rows of the last step.
  int64_t num_rows() const {
    return static_cast<int64_t>(harness_->executor.last_plan().tokens.size());
  }
};

TEST_P(VirtualTokensTest, AnswersAreThoseWithTheTokensInFront) {
  MakeTuned();
  auto client = Submit("tuned", 5, 7);
  harness_->RunAll();
  ExpectAnswered(*client, "tuned");
  const Request plain = client->request;
  const int32_t eos[] = {kEosToken};
  EXPECT_NE(client->output(), ReferenceOutput(plain, eos, TestLimits())) << "they change nothing";
}

TEST_P(VirtualTokensTest, UsageTellsOfThePromptAlone) {
  MakeTuned();
  auto first = Submit("tuned", 9, 3);
  harness_->RunAll();
  first->Collect();
  EXPECT_EQ(first->last().usage.prompt_tokens, 9);
  EXPECT_EQ(first->last().usage.cached_tokens, 0);
  EXPECT_EQ(first->last().usage.output_tokens, 3);
  // Three pages of the fifteen positions are found; the first six of these are not the prompt's.
  auto again = Submit("tuned", 9, 3);
  harness_->RunAll();
  ExpectAnswered(*again, "tuned");
  EXPECT_EQ(again->last().usage.prompt_tokens, 9);
  EXPECT_EQ(again->last().usage.cached_tokens, 12 - kVirtual);
}

TEST_P(VirtualTokensTest, KeysAndValuesTakeNoRows) {
  MakeTuned();
  auto client = Submit("tuned", 5, 1);
  harness_->RunAll();
  EXPECT_EQ(num_rows(), has_kv() ? 5 : 5 + kVirtual);
  // Another prompt finds the page that is full of virtual tokens, and has the rest written anew.
  Request other = harness_->MakeRequest(Prompt(5, 20), 1);
  other.UseAdapter("tuned");
  auto second = harness_->Submit(other);
  harness_->RunAll();
  ExpectAnswered(*second, "tuned");
  EXPECT_EQ(num_rows(), has_kv() ? 5 : 5 + kVirtual - 4);
  EXPECT_EQ(second->last().usage.cached_tokens, 0);
}

TEST_P(VirtualTokensTest, ChunksOfAnySizeGiveTheSame) {
  for (int32_t chunk = 1; chunk < 12; ++chunk) {
    SCOPED_TRACE(chunk);
    EngineOptions options = TestOptions();
    options.scheduler.prefill_chunk_max = chunk;
    MakeTuned(TestLimits(), options);
    auto client = Submit("tuned", 5, 4);
    harness_->RunAll();
    ExpectAnswered(*client, "tuned");
  }
}

TEST_P(VirtualTokensTest, APreemptedRequestIsComputedAgain) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 20;
  for (const bool prefix_cache : {true, false}) {
    EngineOptions options = TestOptions();
    options.scheduler.prefix_cache = prefix_cache;
    MakeTuned(limits, options);
    std::vector<std::unique_ptr<TestClient>> clients;
    for (int32_t i = 0; i < 5; ++i) clients.push_back(Submit("tuned", 4 + i, 30));
    harness_->RunAll();
    for (auto& client : clients) ExpectAnswered(*client, "tuned");
    EXPECT_GT(Now().preemptions, 0);
  }
}

TEST_P(VirtualTokensTest, ARequestGoesOnWhereAnotherEngineLeftIt) {
  MakeTuned();
  auto whole = Submit("tuned", 5, 8);
  harness_->RunAll();
  whole->Collect();
  const std::vector<int32_t> output = whole->output();
  for (size_t cut = 1; cut < output.size(); ++cut) {
    MakeTuned();
    Request rest = whole->request;
    rest.output_tokens.assign(output.begin(), output.begin() + static_cast<ptrdiff_t>(cut));
    auto client = harness_->Submit(rest);
    harness_->RunAll();
    client->Collect();
    EXPECT_EQ(client->output(),
              std::vector<int32_t>(output.begin() + static_cast<ptrdiff_t>(cut), output.end()));
    EXPECT_EQ(client->last().usage.output_tokens, 8);
  }
}

TEST_P(VirtualTokensTest, PromptLogprobsAreOfThePromptsTokens) {
  for (const int32_t chunk : {0, 1, 4}) {
    EngineOptions options = TestOptions();
    options.scheduler.prefill_chunk_max = chunk;
    MakeTuned(TestLimits(), options);
    Request request = harness_->MakeRequest(Prompt(7), 2);
    request.UseAdapter("tuned");
    request.sampling.prompt_logprobs = true;
    auto client = harness_->Submit(request);
    harness_->RunAll();
    ExpectAnswered(*client, "tuned");
    const std::vector<TokenLogprob>& logprobs = client->events[0].prompt_logprobs;
    ASSERT_EQ(logprobs.size(), 7u);
    EXPECT_EQ(logprobs[0].token, request.prompt_tokens[0]);
    EXPECT_TRUE(std::isnan(logprobs[0].logprob));
    for (int32_t i = 1; i < 7; ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_EQ(logprobs[at].token, request.prompt_tokens[at]);
      EXPECT_EQ(logprobs[at].logprob, ReferencePromptLogprob(request, i, kVirtual));
    }
  }
}

TEST_P(VirtualTokensTest, TheyCountAgainstTheContext) {
  MakeTuned();
  auto fits = Submit("tuned", 64 - kVirtual - 1, 10);
  auto scored = Submit("tuned", 64 - kVirtual, 0);
  auto too_long = Submit("tuned", 64 - kVirtual, 10);
  auto others = Submit("", 64 - kVirtual, 3);
  harness_->RunAll();
  ExpectAnswered(*fits, "tuned");
  EXPECT_EQ(fits->output().size(), 1u);
  EXPECT_EQ(fits->last().finish_reason, FinishReason::kLength);
  ExpectAnswered(*scored, "tuned");
  ExpectAnswered(*others, "");
  too_long->Collect();
  EXPECT_EQ(too_long->last().status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      too_long->last().status.message(),
      AllOf(HasSubstr("6 tokens in front of the prompt, which has 58"), HasSubstr("holds 64")));
}

// Where the pool is smaller than the context.
TEST_P(VirtualTokensTest, TheyCountAgainstThePool) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 12;
  MakeTuned(limits);
  auto too_long = Submit("tuned", 40, 1);
  harness_->RunAll();
  too_long->Collect();
  EXPECT_THAT(too_long->last().status.message(),
              AllOf(HasSubstr("40"), HasSubstr("6 of the adapter in front")))
      << too_long->last().status.message();
  auto fits = Submit("tuned", 30, 3);
  harness_->RunAll();
  ExpectAnswered(*fits, "tuned");
}

TEST_P(VirtualTokensTest, AFolderThatNobodyHasReadHasThemToo) {
  Make();
  harness_->loader.SetVirtualTokens("content", kVirtual, has_kv());
  auto client = Submit(harness_->AddUnread("folder", "content"), 5, 6);
  harness_->RunAll();
  ExpectAnswered(*client, "content");
}

// Virtual tokens are read before the first layer: no step waits for them layer by layer.
TEST_P(VirtualTokensTest, ARequestBeginsWhenAllOfItsAdapterIsThere) {
  for (const ColdStart cold_start :
       {ColdStart::kLayerwise, ColdStart::kAuto, ColdStart::kCpuAssist, ColdStart::kBlocking}) {
    EngineOptions options = TestOptions();
    options.scheduler.cold_start = cold_start;
    MakeTuned(TestLimits(), options);
    harness_->loader.set_delay(4);
    auto base = Submit("", 4, 20);
    auto client = Submit("tuned", 5, 6);
    harness_->RunAll();
    ExpectAnswered(*client, "tuned");
    ExpectAnswered(*base, "");
    EXPECT_EQ(harness_->executor.num_gated_steps(), 0);
    EXPECT_EQ(harness_->executor.num_bridged_steps(), 0);
  }
}

TEST_P(VirtualTokensTest, OtherContentIsOtherPages) {
  MakeTuned();
  harness_->AddAdapter("other");
  harness_->loader.SetVirtualTokens("other", kVirtual, has_kv());
  Run("tuned");
  Run("other");
  Run("tuned");
}

TEST_P(VirtualTokensTest, StepsAreBegunAhead) {
  ExecutorLimits limits = TestLimits();
  limits.runs_ahead = true;
  MakeTuned(limits);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int32_t i = 0; i < 3; ++i) clients.push_back(Submit("tuned", 4 + i, 20));
  harness_->RunAll();
  for (auto& client : clients) ExpectAnswered(*client, "tuned");
  EXPECT_GT(Now().steps_ahead, 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, VirtualTokensTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "KeysAndValues" : "Embeddings");
});

}  // namespace
}  // namespace graft
