// Steps that come to nothing for a lack of memory: their requests end with an error, all others are
// answered as if nothing had been, and nothing of the step is used again.
#include "engine/engine_testing.h"

namespace graft {
namespace {

void ExpectFailed(TestClient& client, int32_t num_tokens) {
  client.Collect();
  ASSERT_TRUE(client.done());
  EXPECT_EQ(client.last().finish_reason, FinishReason::kError);
  EXPECT_EQ(client.last().status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(client.last().token, -1);
  EXPECT_EQ(client.last().usage.output_tokens, num_tokens);
  EXPECT_EQ(client.output().size(), static_cast<size_t>(num_tokens));
}

void ExpectAnswered(EngineHarness& harness, TestClient& client) {
  client.Collect();
  ASSERT_TRUE(client.done());
  EXPECT_EQ(client.last().finish_reason, FinishReason::kLength);
  EXPECT_EQ(client.output(), harness.Reference(client.request));
}

TEST(EngineStepFailureTest, CostsTheRequestsOfTheStepAlone) {
  ExecutorLimits limits = TestLimits();
  limits.sequences_max = 2;
  EngineHarness harness(limits);
  auto first = harness.Submit(harness.MakeRequest(Prompt(5), 8));
  auto second = harness.Submit(harness.MakeRequest(Prompt(7), 8));
  auto waiting = harness.Submit(harness.MakeRequest(Prompt(9), 8));
  harness.Step();
  harness.Step();
  harness.executor.FailNextStep();
  harness.Step();
  ExpectFailed(*first, 2);
  ExpectFailed(*second, 2);
  harness.RunAll();
  ExpectAnswered(harness, *waiting);
}

TEST(EngineStepFailureTest, LeavesNothingForThoseWhoShareAPrompt) {
  EngineHarness harness;
  auto failed = harness.Submit(harness.MakeRequest(Prompt(17), 4));
  harness.executor.FailNextStep();
  harness.Step();
  ExpectFailed(*failed, 0);
  auto next = harness.Submit(harness.MakeRequest(Prompt(17), 4));
  harness.RunAll();
  ExpectAnswered(harness, *next);
  EXPECT_EQ(next->last().usage.cached_tokens, 0);
}

TEST(EngineStepFailureTest, TakesTheStepThatWasBegunAheadWithIt) {
  ExecutorLimits limits = TestLimits();
  limits.runs_ahead = true;
  EngineHarness harness(limits);
  auto failed = harness.Submit(harness.MakeRequest(Prompt(5), 20));
  for (int i = 0; i < 5; ++i) harness.Step();
  const int64_t num_ahead = harness.engine.Snapshot().steps_ahead;
  ASSERT_GT(num_ahead, 0);
  harness.executor.FailNextStep();
  harness.Step();
  ExpectFailed(*failed, 5);
  EXPECT_GT(harness.engine.Snapshot().steps_ahead, num_ahead) << "the next one was begun already";
  auto next = harness.Submit(harness.MakeRequest(Prompt(6), 20));
  harness.RunAll();
  ExpectAnswered(harness, *next);
}

}  // namespace
}  // namespace graft
