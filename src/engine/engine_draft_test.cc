// Drafts: answers must be those of an engine without drafts, in fewer steps, even while requests
// end or are preempted, tokens are banned, or pages are shared.
#include "engine/engine_testing.h"

namespace graft {
namespace {

constexpr int32_t kDraftsMax = 4;

ExecutorLimits DraftLimits() {
  ExecutorLimits limits = TestLimits();
  limits.draws_max = 24;
  limits.draft_tokens_max = kDraftsMax;
  return limits;
}

class EngineDraftTest : public testing::Test {
 protected:
  void Make(const ExecutorLimits& limits = DraftLimits()) {
    harness_ = std::make_unique<EngineHarness>(limits);
  }
  // One that draws of these tokens alone: the fewer they are, the more is foreseen.
  Request Drawing(std::vector<int32_t> allowed, int32_t tokens_max, int32_t prompt_tokens = 5) {
    Request request = harness_->MakeRequest(Prompt(prompt_tokens, 20), tokens_max);
    request.sampling.allowed_token_ids = std::move(allowed);
    return request;
  }
  void ExpectAnswered(TestClient& client) {
    client.Collect();
    ASSERT_TRUE(client.done());
    EXPECT_EQ(client.last().status.ToString(), "OK");
    EXPECT_EQ(client.output(), harness_->Reference(client.request));
    EXPECT_EQ(client.last().usage.output_tokens, static_cast<int32_t>(client.output().size()));
  }
  std::unique_ptr<TestClient> Run(Request request) {
    auto client = harness_->Submit(std::move(request));
    harness_->RunAll();
    ExpectAnswered(*client);
    return client;
  }
  EngineSnapshot Now() const { return harness_->engine.Snapshot(); }

  std::unique_ptr<EngineHarness> harness_;
};

TEST_F(EngineDraftTest, WhatIsForeseenAndRightComesInFewerSteps) {
  Make();
  Run(Drawing({7}, 40));
  // One of the prompt, three until the same three tokens stood before, then up to five at once.
  EXPECT_LE(Now().steps, 1 + 4 + 8);
  EXPECT_GE(Now().accepted_draft_tokens, 27);
  EXPECT_EQ(Now().accepted_draft_tokens, Now().draft_tokens);
  EXPECT_EQ(Now().output_tokens, 40);
  EXPECT_LE(Now().drafts * kDraftsMax, Now().draft_tokens + kDraftsMax);
}

TEST_F(EngineDraftTest, WhatIsForeseenAndWrongLeavesNoTrace) {
  Make();
  for (int i = 0; i < 10; ++i) Run(Drawing({7, 8, 9}, 40));
  EXPECT_GT(Now().accepted_draft_tokens, 20);
  EXPECT_GT(Now().draft_tokens, Now().accepted_draft_tokens + 20);
  EXPECT_EQ(Now().pages_referenced, 0);
}

TEST_F(EngineDraftTest, LogprobsAreThoseOfSingleSteps) {
  Make();
  Request request = Drawing({7, 8}, 30);
  const auto fast = Run(request);
  EXPECT_GT(Now().accepted_draft_tokens, 3);
  request.draft_tokens_max = 0;
  const int64_t before = Now().draft_tokens;
  const auto slow = Run(request);
  EXPECT_EQ(Now().draft_tokens, before) << "the request asked for none";
  ASSERT_EQ(fast->events.size(), slow->events.size());
  for (size_t i = 0; i < fast->events.size(); ++i) {
    EXPECT_EQ(fast->events[i].token, slow->events[i].token);
    EXPECT_EQ(fast->events[i].logprob, slow->events[i].logprob);
  }
}

TEST_F(EngineDraftTest, AStopEndsTheAnswerInTheMidstOfDrafts) {
  Make();
  // The answer without the stop says where a token stands first; it stops there.
  for (uint32_t seed = 1; seed < 12; ++seed) {
    Request request = Drawing({7, 7, 7, 8, 9}, 30);
    request.sampling.seed = SeedOfTenant("", seed);
    request.sampling.stop_token_ids = {9};
    const auto client = Run(request);
    if (client->output().size() < 30u) {
      EXPECT_EQ(client->last().finish_reason, FinishReason::kStop);
      EXPECT_EQ(client->output().back(), 9);
    }
  }
  EXPECT_GT(Now().accepted_draft_tokens, 10);
}

TEST_F(EngineDraftTest, NoTokenIsDrawnPastTheLength) {
  Make();
  for (int32_t length = 1; length < 20; ++length) {
    const auto client = Run(Drawing({7}, length));
    EXPECT_EQ(client->output().size(), static_cast<size_t>(length));
    EXPECT_EQ(client->last().finish_reason, FinishReason::kLength);
  }
  const auto client = Run(Drawing({7}, 1000));
  EXPECT_EQ(client->output().size(), 59u) << "the context ends";
}

TEST_F(EngineDraftTest, DrawsThatNeedTheTokensBeforeThemAreNotForeseen) {
  Make();
  for (int i = 0; i < 4; ++i) {
    Request request = Drawing({7, 8}, 30);
    if (i == 0) request.sampling.presence_penalty = 1.0f;
    if (i == 1) request.sampling.repetition_penalty = 1.1f;
    if (i == 2) request.sampling.bad_words = {{7, 7, 7, 7, 7, 7, 7}};
    if (i == 3) request.sampling.tokens_min = 30;
    Run(request);
  }
  EXPECT_EQ(Now().draft_tokens, 0);
}

TEST_F(EngineDraftTest, PagesOfAnAnswerAreSharedWithoutWhatWasWrong) {
  Make();
  Request first = Drawing({7, 8}, 40);
  first.sampling.seed = SeedOfTenant("", 1);
  const auto client = Run(first);
  EXPECT_GT(Now().draft_tokens, Now().accepted_draft_tokens);
  Request second = first;
  second.id = RequestId(1000);
  const std::vector<int32_t> output = client->output();
  second.prompt_tokens.insert(second.prompt_tokens.end(), output.begin(), output.end());
  second.sampling.tokens_max = 10;
  const auto next = Run(second);
  EXPECT_GE(next->last().usage.cached_tokens, 40);
}

TEST_F(EngineDraftTest, DraftsFitIntoTheStepsRowsDrawsAndPages) {
  ExecutorLimits limits = DraftLimits();
  limits.draws_max = 10;
  limits.num_pages = 20;  // some are preempted
  Make(limits);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(harness_->Submit(Drawing({7}, 40, 3 + i)));
  harness_->RunAll();  // the executor checks each plan
  for (auto& client : clients) ExpectAnswered(*client);
  EXPECT_GT(Now().preemptions, 0);
  EXPECT_GT(Now().accepted_draft_tokens, 50);
}

TEST_F(EngineDraftTest, WhereARowCostsAsMuchAsAStepNoDraftsAreGiven) {
  Make();
  harness_->executor.set_row_ns(1'000'000'000);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(harness_->Submit(Drawing({7}, 50, 3 + i)));
  harness_->RunAll();
  for (auto& client : clients) ExpectAnswered(*client);
  EXPECT_LE(Now().draft_tokens, 4 * 4 * kDraftsMax) << "four tries, further and further apart";
}

TEST_F(EngineDraftTest, WhereDraftsDoNotPayStepsAreBegunAhead) {
  ExecutorLimits limits = DraftLimits();
  limits.runs_ahead = true;
  Make(limits);
  harness_->executor.set_gap_ns(1'000'000'000);  // of steps that are not begun ahead
  for (int i = 0; i < 8; ++i) Run(Drawing({7}, 50));
  EXPECT_GT(Now().steps_ahead, 250);
  // Now and then it is tried again, and when it pays, it is done.
  const int64_t before = Now().accepted_draft_tokens;
  EXPECT_GT(before, 0);
  harness_->executor.set_gap_ns(0);
  for (int i = 0; i < 8; ++i) Run(Drawing({7}, 50));
  EXPECT_GT(Now().accepted_draft_tokens - before, 200);
}

// A step with drafts takes 2.4 times as long as one that is begun ahead: five tokens of one of four
// sequences are not worth it, those of four are, from the first step on.
TEST_F(EngineDraftTest, DraftsOfManyPayWhereThoseOfOneDoNot) {
  ExecutorLimits limits = DraftLimits();
  limits.runs_ahead = true;
  Make(limits);
  harness_->executor.set_gap_ns(700);  // of a step of 500
  const auto accepted_of = [&](int num_copying) {
    const int64_t before = Now().accepted_draft_tokens;
    std::vector<std::unique_ptr<TestClient>> clients;
    for (int i = 0; i < 4; ++i) {
      clients.push_back(harness_->Submit(
          i < num_copying ? Drawing({7}, 50, 3 + i) : harness_->MakeRequest(Prompt(5 + i), 50)));
    }
    harness_->RunAll();
    for (auto& client : clients) ExpectAnswered(*client);
    return Now().accepted_draft_tokens - before;
  };
  accepted_of(1);
  EXPECT_LT(accepted_of(1), 4 * kDraftsMax) << "trials alone";
  EXPECT_GT(accepted_of(4), 4 * 30);
  EXPECT_GT(Now().steps_ahead, 50);
}

TEST_F(EngineDraftTest, StepsAreBegunAheadWhereNothingIsForeseen) {
  ExecutorLimits limits = DraftLimits();
  limits.runs_ahead = true;
  Make(limits);
  auto varied = harness_->Submit(harness_->MakeRequest(Prompt(5), 30));
  harness_->RunAll();
  ExpectAnswered(*varied);
  EXPECT_GT(Now().steps_ahead, 20);
  Run(Drawing({7}, 40));
  EXPECT_GT(Now().accepted_draft_tokens, 20);
}

TEST_F(EngineDraftTest, ARequestThatCameFromElsewhereIsForeseenByWhatItDrewThere) {
  Make();
  Request request = Drawing({7, 8}, 40);
  std::vector<int32_t> whole = harness_->Reference(request);
  request.output_tokens = {whole.begin(), whole.begin() + 20};
  auto client = harness_->Submit(request);
  harness_->RunAll();
  client->Collect();
  ASSERT_TRUE(client->done());
  EXPECT_EQ(client->output(), std::vector<int32_t>(whole.begin() + 20, whole.end()));
  EXPECT_GT(Now().accepted_draft_tokens, 0);
}

}  // namespace
}  // namespace graft
