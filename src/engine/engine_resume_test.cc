// Requests that begin with tokens that another engine has drawn.
#include <gtest/gtest.h>

#include "engine/engine_testing.h"

namespace graft {
namespace {

std::vector<int32_t> From(const std::vector<int32_t>& tokens, size_t first) {
  return {tokens.begin() + static_cast<ptrdiff_t>(first), tokens.end()};
}

TEST(EngineResumeTest, GoesOnFromAnyTokenAsIfItHadDrawnThemAll) {
  EngineHarness first;
  for (const char* const adapter : {"", "aa"}) {
    if (*adapter != '\0') first.AddAdapter(adapter);
    Request request = first.MakeRequest(Prompt(7), 12);
    request.UseAdapter(adapter);
    auto whole = first.Submit(request);
    first.RunAll();
    whole->Collect();
    ASSERT_EQ(whole->output().size(), 12u);
    for (size_t cut = 1; cut < 12; ++cut) {
      EngineHarness second;
      if (*adapter != '\0') second.AddAdapter(adapter);
      request.output_tokens = whole->output();
      request.output_tokens.resize(cut);
      auto rest = second.Submit(request);
      second.RunAll();
      rest->Collect();
      ASSERT_TRUE(rest->done());
      EXPECT_EQ(rest->output(), From(whole->output(), cut)) << "cut at " << cut;
      EXPECT_EQ(rest->last().finish_reason, FinishReason::kLength);
      EXPECT_EQ(rest->last().usage.prompt_tokens, 7);
      EXPECT_EQ(rest->last().usage.output_tokens, 12);
    }
  }
}

TEST(EngineResumeTest, EndsAtTheSameStopToken) {
  EngineHarness first;
  Request request = first.MakeRequest(Prompt(5), 20);
  auto whole = first.Submit(request);
  first.RunAll();
  whole->Collect();
  request.sampling.stop_token_ids = {whole->output()[9]};
  request.sampling.tokens_min = 10;
  request.output_tokens = whole->output();
  request.output_tokens.resize(4);
  // Where the stop token is banned, another one is drawn. A resumed run must end where a whole run
  // ends.
  EngineHarness second;
  Request uncut = request;
  uncut.output_tokens.clear();
  auto rest = second.Submit(request);
  auto all = second.Submit(uncut);
  second.RunAll();
  rest->Collect();
  all->Collect();
  EXPECT_EQ(rest->output(), From(all->output(), 4));
  EXPECT_EQ(rest->last().finish_reason, all->last().finish_reason);
}

// A chat's next turn finds the pages of its prompt in the cache. It finds those of the answer only
// where drawn pages are shared.
void ExpectDrawnPagesShared(const EngineOptions& options, const char* adapter, bool shares) {
  EngineHarness harness(TestLimits(), options);
  harness.AddAdapter("aa");
  Request request = harness.MakeRequest(Prompt(8), 12);  // pages of 4
  request.UseAdapter(adapter);
  auto first = harness.Submit(request);
  harness.RunAll();
  first->Collect();
  Request next = request;
  next.id = 77;
  for (const int32_t token : first->output()) next.prompt_tokens.push_back(token);
  next.prompt_tokens.push_back(3);
  auto second = harness.Submit(next);
  harness.RunAll();
  second->Collect();
  EXPECT_EQ(second->last().usage.cached_tokens, shares ? 16 : 8);
  EXPECT_EQ(second->output(), harness.Reference(next));
  // A resumed request computes its drawn rows as drawn ones, even if another request has them as
  // its prompt.
  Request resumed = request;
  resumed.id = 78;
  resumed.output_tokens = first->output();
  resumed.output_tokens.resize(9);
  auto rest = harness.Submit(resumed);
  harness.RunAll();
  rest->Collect();
  EXPECT_EQ(rest->last().usage.cached_tokens, shares ? 16 : 8);
  EXPECT_EQ(rest->output(), From(first->output(), 9));
}

TEST(EngineResumeTest, DrawnPagesAreSharedOnlyWhereTheyMay) {
  for (const bool shares : {true, false}) {
    for (const bool tells_base_rows : {true, false}) {
      SCOPED_TRACE(testing::Message() << shares << tells_base_rows);
      EngineOptions options = TestOptions();
      options.scheduler.shares_drawn_pages = shares;
      options.scheduler.tells_base_rows = tells_base_rows;
      ExpectDrawnPagesShared(options, "aa", shares);
      ExpectDrawnPagesShared(options, "", shares || !tells_base_rows);
    }
  }
}

// The time between the first token drawn here and the one before it is not known.
TEST(EngineResumeTest, OnlyTimesBetweenTokensThatWereDrawnHereAreTold) {
  EngineHarness harness;
  Request request = harness.MakeRequest(Prompt(7), 12);
  request.output_tokens = {1, 2, 3};
  auto rest = harness.Submit(request);
  harness.RunAll();
  rest->Collect();
  ASSERT_EQ(rest->output().size(), 9u);
  const std::string page = harness.metrics.Render();
  EXPECT_NE(page.find("graft_inter_token_seconds_count 8\n"), std::string::npos) << page;
}

// It was in line at a frontend, or on another runner, before the other came here.
TEST(EngineResumeTest, WhoWasAcceptedFirstGoesFirst) {
  ExecutorLimits limits = TestLimits();
  limits.sequences_max = 1;
  EngineHarness harness(limits);
  auto running = harness.Submit(harness.MakeRequest(Prompt(5), 8));
  harness.Step();
  auto young = harness.Submit(harness.MakeRequest(Prompt(6), 3));
  Request request = harness.MakeRequest(Prompt(7), 3);
  request.age_ns = 5'000'000'000;
  auto old = harness.Submit(request);
  while (!old->done() && harness.Step()) old->Collect();
  EXPECT_TRUE(old->done());
  young->Collect();
  EXPECT_TRUE(young->events.empty());
  harness.RunAll();
  for (const auto& client : {&running, &young, &old}) {
    (*client)->Collect();
    EXPECT_EQ((*client)->output(), harness.Reference((*client)->request));
  }
}

TEST(EngineResumeTest, RefusesWhatHasNothingLeftToDraw) {
  EngineHarness harness;
  Request request = harness.MakeRequest(Prompt(5), 3);
  request.output_tokens = {4, 5, 6};
  const Status full = harness.engine.Submit(request, std::make_shared<TokenStream>());
  EXPECT_EQ(full.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(full.message().find("nothing is left to draw"), std::string::npos);
  request.output_tokens = {4, 500};
  const Status beyond = harness.engine.Submit(request, std::make_shared<TokenStream>());
  EXPECT_NE(beyond.message().find("output token 1 is 500"), std::string::npos);
}

TEST(EngineResumeTest, RefusesByNameWhatNobodyServes) {
  EngineHarness harness;
  Request request = harness.MakeRequest(Prompt(5), 3);
  request.grammar = "x";
  const Status status = harness.engine.Submit(request, std::make_shared<TokenStream>());
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace graft
