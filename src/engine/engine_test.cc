#include "engine/engine.h"

#include <cmath>
#include <set>

#include "engine/engine_testing.h"

namespace graft {
namespace {

TEST(EngineTest, AnswersOneRequest) {
  EngineHarness harness;
  auto client = harness.Submit(harness.MakeRequest(Prompt(5), 7));
  harness.RunAll();
  client->Collect();
  ASSERT_TRUE(client->done());
  EXPECT_EQ(client->output(), harness.Reference(client->request));
  EXPECT_EQ(client->last().finish_reason, FinishReason::kLength);
  EXPECT_EQ(client->last().usage.prompt_tokens, 5);
  EXPECT_EQ(client->last().usage.output_tokens, 7);
  EXPECT_EQ(client->last().usage.cached_tokens, 0);
  EXPECT_EQ(harness.executor.num_steps(), 7);  // the prefill draws the first token
  EXPECT_FALSE(harness.Step());
}

TEST(EngineTest, MixesPrefillAndDecodeOfBaseAndAdaptersInOnePlan) {
  EngineHarness harness;
  ASSERT_TRUE(harness.AddAdapter("aa"));
  ASSERT_TRUE(harness.AddAdapter("bb"));
  ASSERT_TRUE(harness.engine.PinAdapters({"aa", "bb"}).ok());
  std::vector<std::unique_ptr<TestClient>> clients;
  const auto submit = [&](const std::string& adapter) {
    const auto first = static_cast<int32_t>(10 * clients.size());  // so that no two share a prefix
    Request request = harness.MakeRequest(Prompt(6, 2 + first), 5);
    request.UseAdapter(adapter);
    clients.push_back(harness.Submit(request));
  };
  submit("bb");
  submit("");
  submit("aa");
  harness.Step();
  submit("bb");
  submit("");
  harness.Step();
  const StepPlan& plan = harness.executor.last_plan();
  std::vector<int32_t> adapters;
  std::vector<int32_t> rows;
  for (const PlannedSequence& planned : plan.sequences) {
    adapters.push_back(planned.adapter_slot);
    rows.push_back(planned.num_tokens);
  }
  EXPECT_EQ(adapters, (std::vector<int32_t>{-1, -1, 0, 1, 1}));
  EXPECT_EQ(rows, (std::vector<int32_t>{1, 6, 1, 1, 6}));
  harness.RunAll();
  for (auto& client : clients) {
    client->Collect();
    EXPECT_EQ(client->output(), harness.Reference(client->request));
  }
  EXPECT_EQ(harness.engine.Snapshot().step_adapters_max, 2);
  EXPECT_EQ(harness.engine.Snapshot().step_sequences_max, 5);
  EXPECT_EQ(harness.engine.Snapshot().mixed_steps, 1);
}

TEST(EngineTest, TellsItsGoal) {
  EXPECT_NE(EngineHarness().metrics.Render().find("graft_step_rows_max{goal=\"latency\"} 32\n"),
            std::string::npos);
  EngineOptions options = TestOptions();
  options.scheduler.goal = Goal::kThroughput;
  options.scheduler.step_ns_max = 1'000'000'000;
  const EngineHarness harness(TestLimits(), options);
  const std::string page = harness.metrics.Render();
  EXPECT_NE(page.find("graft_step_rows_max{goal=\"throughput\"} 32\n"), std::string::npos);
  EXPECT_NE(page.find("graft_step_bound_seconds{goal=\"throughput\"} 1\n"), std::string::npos);
}

TEST(EngineTest, CutsLongPromptsIntoChunksBesideDecodes) {
  ExecutorLimits limits = TestLimits();
  limits.step_tokens_max = 8;
  EngineHarness harness(limits);
  auto first = harness.Submit(harness.MakeRequest(Prompt(3), 20));
  harness.Step();
  auto second = harness.Submit(harness.MakeRequest(Prompt(30, 10), 2));
  std::vector<size_t> rows;
  while (harness.Step()) rows.push_back(harness.executor.last_plan().tokens.size());
  // 7 rows of the prompt run beside each decode row until 28 are done, then its last 2, then decode
  // rows alone.
  EXPECT_EQ((std::vector<size_t>{rows.begin(), rows.begin() + 7}),
            (std::vector<size_t>{8, 8, 8, 8, 3, 2, 1}));
  for (TestClient* client : {first.get(), second.get()}) {
    client->Collect();
    EXPECT_EQ(client->output(), harness.Reference(client->request));
  }
}

TEST(EngineTest, TheChunkLimitLeavesRowsForOthers) {
  EngineOptions options = TestOptions();
  options.scheduler.prefill_chunk_max = 4;
  EngineHarness harness(TestLimits(), options);
  auto first = harness.Submit(harness.MakeRequest(Prompt(10), 1));
  auto second = harness.Submit(harness.MakeRequest(Prompt(10, 20), 1));
  harness.Step();
  EXPECT_EQ(harness.executor.last_plan().sequences.size(), 2u);
  EXPECT_EQ(harness.executor.last_plan().tokens.size(), 8u);
  harness.RunAll();
  EXPECT_EQ(harness.executor.num_steps(), 3);
}

TEST(EngineTest, StopsAtEosAndStopTokensAndSaysWhich) {
  EngineHarness harness;
  Request request = harness.MakeRequest(Prompt(4), 40);
  const std::vector<int32_t> free_run = harness.Reference(request);
  request.sampling.stop_token_ids = {free_run[10]};
  auto stopped = harness.Submit(request);
  harness.RunAll();
  stopped->Collect();
  EXPECT_EQ(stopped->output(), harness.Reference(request));
  EXPECT_EQ(stopped->last().finish_reason, FinishReason::kStop);
  EXPECT_EQ(stopped->last().token, free_run[10]);

  // With some seed EOS is drawn early. Then the finish reason is stop, not length.
  request.sampling.stop_token_ids.clear();
  request.sampling.ignore_eos = false;
  do {
    ++request.sampling.seed;
  } while (harness.Reference(request).size() > 20);
  request.id = 1000;
  request.sampling.tokens_max = static_cast<int32_t>(harness.Reference(request).size());
  auto ended = harness.Submit(request);
  harness.RunAll();
  ended->Collect();
  EXPECT_EQ(ended->output(), harness.Reference(request));
  EXPECT_EQ(ended->last().token, kEosToken);
  EXPECT_EQ(ended->last().finish_reason, FinishReason::kStop);
}

TEST(EngineTest, BansStopsBeforeTokensMin) {
  EngineHarness harness;
  Request request = harness.MakeRequest(Prompt(4), 12);
  request.sampling.ignore_eos = false;
  for (int32_t token = 5; token < 50; ++token) request.sampling.stop_token_ids.push_back(token);
  request.sampling.tokens_min = 9;
  auto client = harness.Submit(request);
  harness.RunAll();
  client->Collect();
  const std::vector<int32_t> output = client->output();
  EXPECT_EQ(output, harness.Reference(request));
  ASSERT_GE(output.size(), 9u);
  for (size_t i = 0; i < 9; ++i) EXPECT_TRUE(output[i] > 0 && output[i] < 5) << output[i];
}

TEST(EngineTest, DrawsNoBadWordToItsEnd) {
  EngineHarness harness;
  const Request plain = harness.MakeRequest(Prompt(4), 12);
  const std::vector<int32_t> before = harness.Reference(plain);
  Request request = plain;
  // The third token alone, and runs that never come to their ends.
  request.sampling.bad_words = {{before[2]}, {before[0], before[1], 1}, {before[0], 0, 1}};
  auto client = harness.Submit(request);
  harness.RunAll();
  client->Collect();
  const std::vector<int32_t> output = client->output();
  EXPECT_EQ(output, harness.Reference(request));
  EXPECT_EQ(std::count(output.begin(), output.end(), before[2]), 0);
  request.id = plain.id.number + 1;
  request.sampling.bad_words = {{before[0], before[1]}};
  auto pair = harness.Submit(request);
  harness.RunAll();
  pair->Collect();
  EXPECT_EQ(pair->output()[0], before[0]);
  EXPECT_NE(pair->output()[1], before[1]);
}

TEST(EngineTest, DrawsAllowedTokensAlone) {
  EngineHarness harness;
  Request request = harness.MakeRequest(Prompt(4), 12);
  request.sampling.allowed_token_ids = {7, 30, 25, 40};
  request.sampling.bad_words = {{30}};
  auto client = harness.Submit(request);
  harness.RunAll();
  client->Collect();
  const std::vector<int32_t> output = client->output();
  EXPECT_EQ(output, harness.Reference(request));
  EXPECT_EQ(std::set<int32_t>(output.begin(), output.end()), std::set<int32_t>({7, 25, 40}));
}

// It is the request's mistake, not the model's: 400 in place of 500.
TEST(EngineTest, ARequestThatCanDrawNothingIsRefused) {
  EngineHarness harness;
  const auto submit = [&](auto&& change) {
    Request request = harness.MakeRequest(Prompt(4), 5);
    request.sampling.ignore_eos = false;
    change(request.sampling);
    return harness.engine.Submit(std::move(request), std::make_shared<TokenStream>());
  };
  const Status ended = submit([](SamplingParams& sampling) {
    sampling.allowed_token_ids = {kEosToken};
    sampling.tokens_min = 1;
  });
  EXPECT_EQ(ended.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(ended.message().starts_with("allowed_token_ids leaves no token")) << ended.message();
  EXPECT_FALSE(submit([](SamplingParams& sampling) {
                 sampling.allowed_token_ids = {7, 8};
                 sampling.bad_words = {{7}, {8}};
               }).ok());
  EXPECT_FALSE(submit([](SamplingParams& sampling) {
                 for (int32_t token = 0; token < 50; ++token) sampling.bad_words.push_back({token});
               }).ok());
  EXPECT_FALSE(harness.Step());
  // What a later token meets shows then.
  Request request = harness.MakeRequest(Prompt(4), 5);
  request.sampling.allowed_token_ids = {7};
  request.sampling.bad_words = {{7, 7}};
  auto client = harness.Submit(request);
  harness.RunAll();
  client->Collect();
  EXPECT_EQ(client->output(), std::vector<int32_t>{7});
  EXPECT_EQ(client->last().finish_reason, FinishReason::kError);
  EXPECT_EQ(client->last().status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(client->last().status.message().find("leaves no token to draw behind 1"),
            std::string::npos)
      << client->last().status.message();
}

TEST(EngineTest, EndsAtTheContextLength) {
  EngineHarness harness;
  auto cut = harness.Submit(harness.MakeRequest(Prompt(60), 1000));
  auto tight = harness.Submit(harness.MakeRequest(Prompt(63), 5));
  harness.RunAll();
  cut->Collect();
  tight->Collect();
  EXPECT_EQ(cut->output().size(), 4u);
  EXPECT_EQ(cut->last().finish_reason, FinishReason::kLength);
  EXPECT_EQ(tight->output().size(), 1u);
  EXPECT_EQ(tight->last().finish_reason, FinishReason::kLength);
}

TEST(EngineTest, RefusesWhatCanNeverRun) {
  EngineHarness harness;
  const auto submit = [&](Request request) {
    return harness.engine.Submit(std::move(request), std::make_shared<TokenStream>());
  };
  const Status too_long = submit(harness.MakeRequest(Prompt(64), 1));
  EXPECT_EQ(too_long.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(too_long.message().find("the prompt has 64 tokens; the context holds 64"),
            std::string::npos);
  EXPECT_EQ(submit(harness.MakeRequest({}, 1)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(submit(harness.MakeRequest({50}, 1)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(submit(harness.MakeRequest({-1}, 1)).code(), StatusCode::kInvalidArgument);
  Request request = harness.MakeRequest(Prompt(4), 1);
  request.sampling.top_p = 0;
  EXPECT_EQ(submit(request).code(), StatusCode::kInvalidArgument);
  request = harness.MakeRequest(Prompt(4), 1);
  request.UseAdapter("unknown");
  EXPECT_EQ(submit(request).code(), StatusCode::kNotFound);
  EXPECT_FALSE(harness.Step());

  // Where the pool is smaller than the context, the pool is the limit.
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 5;
  EngineHarness small(limits);
  EXPECT_EQ(small.engine.limits().context_tokens_max, 20);
  const Status too_big =
      small.engine.Submit(small.MakeRequest(Prompt(20), 1), std::make_shared<TokenStream>());
  EXPECT_EQ(too_big.code(), StatusCode::kInvalidArgument);
  auto fits = small.Submit(small.MakeRequest(Prompt(19), 10));
  small.RunAll();
  fits->Collect();
  EXPECT_EQ(fits->output(), small.Reference(fits->request));
}

TEST(EngineTest, RefusesBeyondTheQueueBoundUntilOneEnds) {
  EngineOptions options = TestOptions();
  options.requests_max = 2;
  EngineHarness harness(TestLimits(), options);
  auto first = harness.Submit(harness.MakeRequest(Prompt(4), 1));
  auto second = harness.Submit(harness.MakeRequest(Prompt(4), 3));
  const auto third = [&] {
    return harness.engine.Submit(harness.MakeRequest(Prompt(4), 1),
                                 std::make_shared<TokenStream>());
  };
  EXPECT_EQ(third().code(), StatusCode::kResourceExhausted);
  harness.Step();
  EXPECT_TRUE(third().ok());
  EXPECT_EQ(third().code(), StatusCode::kResourceExhausted);
}

TEST(EngineTest, CancelFreesPagesWithinOneStep) {
  EngineOptions options = TestOptions();
  options.scheduler.prefix_cache = false;
  EngineHarness harness(TestLimits(), options);
  auto running = harness.Submit(harness.MakeRequest(Prompt(8), 50));
  auto other = harness.Submit(harness.MakeRequest(Prompt(8), 5));
  harness.Step();
  auto waiting = harness.Submit(harness.MakeRequest(Prompt(8), 50));
  const int64_t before = harness.engine.Snapshot().pages_referenced;
  harness.engine.Cancel(running->request.id);
  harness.engine.Cancel(waiting->request.id);
  harness.engine.Cancel(12345);
  harness.Step();
  EXPECT_LT(harness.engine.Snapshot().pages_referenced, before);
  running->Collect();
  waiting->Collect();
  EXPECT_EQ(running->last().finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(running->last().usage.output_tokens, 1);
  EXPECT_EQ(waiting->last().finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(waiting->last().usage.output_tokens, 0);
  harness.RunAll();
  other->Collect();
  EXPECT_EQ(other->output(), harness.Reference(other->request));
  EXPECT_EQ(harness.engine.Snapshot().pages_free, 64);
}

TEST(EngineTest, ScoresAPromptWithoutGenerating) {
  ExecutorLimits limits = TestLimits();
  limits.step_tokens_max = 8;
  EngineHarness harness(limits);
  Request request = harness.MakeRequest(Prompt(21), 0);
  request.sampling.prompt_logprobs = true;
  request.sampling.num_logprobs = 1;
  for (int round = 0; round < 2; ++round) {  // the second could match the first's pages
    request.id = static_cast<RequestId>(100 + round);
    auto client = harness.Submit(request);
    harness.RunAll();
    client->Collect();
    ASSERT_EQ(client->events.size(), 1u);
    EXPECT_EQ(client->last().token, -1);
    EXPECT_EQ(client->last().finish_reason, FinishReason::kLength);
    ASSERT_EQ(client->last().prompt_logprobs.size(), 21u);
    EXPECT_TRUE(std::isnan(client->last().prompt_logprobs[0].logprob));
    EXPECT_TRUE(client->last().prompt_top_logprobs[0].empty());
    for (int32_t i = 1; i < 21; ++i) {
      const TokenLogprob& entry = client->last().prompt_logprobs[static_cast<size_t>(i)];
      EXPECT_EQ(entry.token, request.prompt_tokens[static_cast<size_t>(i)]);
      EXPECT_EQ(entry.logprob, ReferencePromptLogprob(request, i)) << i;
      EXPECT_EQ(client->last().prompt_top_logprobs[static_cast<size_t>(i)].size(), 1u);
    }
  }
}

// Beside a decoding sequence, in chunks, and again where the prompt's pages are cached.
TEST(EngineTest, PoolsAPromptWithoutGenerating) {
  ExecutorLimits limits = TestLimits();
  limits.step_tokens_max = 8;
  EngineHarness harness(limits);
  auto decoding = harness.Submit(harness.MakeRequest(Prompt(5), 12));
  Request request = harness.MakeRequest(Prompt(21), 0);
  double sum = 0.0;
  for (const int32_t token : request.prompt_tokens) sum += token;
  for (const Pooling pooling : {Pooling::kMean, Pooling::kLast, Pooling::kMean, Pooling::kLast}) {
    request.pooling = pooling;
    request.id = request.id.number + 100;
    auto client = harness.Submit(request);
    harness.RunAll();
    client->Collect();
    ASSERT_EQ(client->events.size(), 1u);
    EXPECT_EQ(client->last().token, -1);
    EXPECT_EQ(client->last().finish_reason, FinishReason::kLength);
    const bool is_mean = pooling == Pooling::kMean;
    const double want = is_mean ? sum / 21 : request.prompt_tokens.back();
    EXPECT_EQ(client->last().embedding, std::vector<float>{static_cast<float>(want)});
    if (is_mean) {
      EXPECT_EQ(client->last().usage.cached_tokens, 0);
    }
  }
  decoding->Collect();
  EXPECT_EQ(decoding->output(), harness.Reference(decoding->request));
}

TEST(EngineTest, PromptLogprobsComeWithTheFirstTokenOnly) {
  EngineHarness harness;
  Request request = harness.MakeRequest(Prompt(9), 3);
  request.sampling.prompt_logprobs = true;
  auto client = harness.Submit(request);
  harness.RunAll();
  client->Collect();
  ASSERT_EQ(client->events.size(), 3u);
  EXPECT_EQ(client->events[0].prompt_logprobs.size(), 9u);
  EXPECT_TRUE(client->events[1].prompt_logprobs.empty());
  EXPECT_EQ(client->output(), harness.Reference(request));
}

TEST(EngineTest, ANotFiniteResultFailsThatRequestAlone) {
  EngineHarness harness;
  auto good = harness.Submit(harness.MakeRequest(Prompt(8), 5));
  auto bad = harness.Submit(harness.MakeRequest({2, 3, kPoisonToken, 5, 6}, 5));
  harness.RunAll();
  good->Collect();
  bad->Collect();
  EXPECT_EQ(good->output(), harness.Reference(good->request));
  ASSERT_EQ(bad->events.size(), 1u);
  EXPECT_EQ(bad->last().finish_reason, FinishReason::kError);
  EXPECT_EQ(bad->last().status.code(), StatusCode::kInternal);
  // None of its pages is shared.
  auto again = harness.Submit(harness.MakeRequest({2, 3, kPoisonToken, 5, 6}, 5));
  harness.RunAll();
  again->Collect();
  EXPECT_EQ(again->last().usage.cached_tokens, 0);
}

TEST(EngineTest, ReusesPrefixesOfTheSameTenantAndContentOnly) {
  EngineHarness harness;
  ASSERT_TRUE(harness.AddAdapter("aa"));
  ASSERT_TRUE(harness.AddAdapter("bb"));
  const auto cached = [&](const std::string& tenant, const std::string& adapter, int32_t length) {
    Request request = harness.MakeRequest(Prompt(length), 3);
    request.tenant = tenant;
    request.UseAdapter(adapter);
    request.sampling.seed = SeedOfTenant(tenant, 1);
    auto client = harness.Submit(request);
    harness.RunAll();
    client->Collect();
    EXPECT_EQ(client->output(), harness.Reference(request));
    return client->last().usage.cached_tokens;
  };
  EXPECT_EQ(cached("t", "aa", 17), 0);
  EXPECT_EQ(cached("t", "aa", 17), 16);
  EXPECT_EQ(cached("t", "aa", 16), 12);  // the last token is always computed
  EXPECT_EQ(cached("t", "aa", 3), 0);
  EXPECT_EQ(cached("u", "aa", 17), 0);
  EXPECT_EQ(cached("t", "bb", 17), 0);
  EXPECT_EQ(cached("t", "", 17), 0);
  EXPECT_EQ(cached("t", "", 30), 16);
}

TEST(EngineTest, RequestsInFlightFinishOnTheRetiredContent) {
  ExecutorLimits limits = TestLimits();
  limits.adapters_max = 2;
  EngineHarness harness(limits);
  ASSERT_TRUE(harness.AddAdapter("old"));
  Request request = harness.MakeRequest(Prompt(9), 6);
  request.UseAdapter("old");
  auto before = harness.Submit(request);
  while (harness.engine.Snapshot().steps == 0) harness.Step();
  harness.adapters.Retire("old");
  ASSERT_TRUE(harness.AddAdapter("new"));
  EXPECT_EQ(harness.engine.Submit(request, std::make_shared<TokenStream>()).code(),
            StatusCode::kNotFound);
  request.id = 1000;
  request.UseAdapter("new");
  auto after = harness.Submit(request);
  harness.RunAll();
  before->Collect();
  after->Collect();
  EXPECT_EQ(before->output(), harness.Reference(before->request));
  EXPECT_EQ(after->output(), harness.Reference(after->request));
  EXPECT_NE(before->output(), after->output());
  EXPECT_EQ(after->last().usage.cached_tokens, 0);
  EXPECT_EQ(harness.adapters.num_contents(), 1) << "the old content is forgotten";
  EXPECT_EQ(harness.engine.Snapshot().adapters_resident, 1);
}

TEST(EngineTest, PreemptsTheNewestAndResumesItUnchanged) {
  for (const bool prefix_cache : {false, true}) {
    ExecutorLimits limits = TestLimits();
    limits.num_pages = 12;
    EngineOptions options = TestOptions();
    options.scheduler.prefix_cache = prefix_cache;
    EngineHarness harness(limits, options);
    std::vector<std::unique_ptr<TestClient>> clients;
    for (int i = 0; i < 4; ++i) {
      clients.push_back(harness.Submit(harness.MakeRequest(Prompt(6, 2 + i), 30)));
    }
    harness.RunAll();
    for (auto& client : clients) {
      client->Collect();
      EXPECT_EQ(client->output(), harness.Reference(client->request));
      EXPECT_EQ(client->last().usage.cached_tokens, 0);  // what it found again were its own pages
    }
    EXPECT_GT(harness.engine.Snapshot().preemptions, 0);
    EXPECT_LE(harness.engine.Snapshot().preemptions,
              4);  // no preempting in turns
  }
}

TEST(EngineTest, ServesFirstComeFirst) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 12;
  EngineHarness harness(limits);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(harness.Submit(harness.MakeRequest(Prompt(8, 2 + 5 * i), 20)));
  }
  std::vector<size_t> order;
  std::vector<bool> seen(clients.size());
  while (harness.Step()) {
    for (size_t i = 0; i < clients.size(); ++i) {
      clients[i]->Collect();
      if (clients[i]->done() && !seen[i]) order.push_back(i);
      seen[i] = clients[i]->done();
    }
  }
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3, 4, 5}));
}

TEST(EngineTest, StopCancelsWhatIsInFlight) {
  EngineHarness harness;
  auto running = harness.Submit(harness.MakeRequest(Prompt(8), 50));
  harness.Step();
  auto waiting = harness.Submit(harness.MakeRequest(Prompt(8), 50));
  harness.engine.Stop();
  running->Collect();
  waiting->Collect();
  EXPECT_EQ(running->last().finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(waiting->last().finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(
      harness.engine.Submit(harness.MakeRequest(Prompt(8), 50), std::make_shared<TokenStream>())
          .code(),
      StatusCode::kUnavailable);
}

// The harness's clock moves only between steps.
TEST(EngineTest, AnIterationLastsFromTheEndOfTheStepBeforeWhileRequestsRun) {
  EngineHarness harness;
  const auto expect = [&](int64_t prompt_steps, int64_t prompt_ns, int64_t decode_ns) {
    const EngineSnapshot now = harness.engine.Snapshot();
    EXPECT_EQ(now.prompt_steps, prompt_steps);
    EXPECT_EQ(now.prompt_iteration_ns, prompt_ns);
    EXPECT_EQ(now.decode_iteration_ns, decode_ns);
  };
  auto first = harness.Submit(harness.MakeRequest(Prompt(5), 4));
  harness.Step();
  expect(1, 0, 0);  // no request ran before
  harness.Step();
  expect(1, 0, 1000);
  auto second = harness.Submit(harness.MakeRequest(Prompt(6), 2));
  harness.Step();
  expect(2, 1000, 1000);
  harness.RunAll();
  expect(2, 1000, 2000);
  auto third = harness.Submit(harness.MakeRequest(Prompt(7), 1));
  harness.RunAll();
  expect(3, 1000, 2000);
}

TEST(EngineTest, CountsWhatItDoes) {
  EngineHarness harness;
  ASSERT_TRUE(harness.AddAdapter("0123456789abcdef"));
  Request request = harness.MakeRequest(Prompt(9), 3);
  request.UseAdapter("0123456789abcdef");
  harness.Submit(request);
  harness.RunAll();
  request.id = 1000;
  harness.Submit(request);
  harness.RunAll();
  const EngineSnapshot snapshot = harness.engine.Snapshot();
  EXPECT_EQ(snapshot.steps, 6);
  EXPECT_EQ(snapshot.prompt_tokens, 18);
  EXPECT_EQ(snapshot.output_tokens, 6);
  EXPECT_EQ(snapshot.rows, 9 + 2 + 1 + 2);
  EXPECT_EQ(snapshot.prefix_hit_tokens, 8);
  EXPECT_EQ(snapshot.prefix_lookup_tokens, 18);
  EXPECT_EQ(snapshot.pages_free + snapshot.pages_cached + snapshot.pages_referenced +
                snapshot.pages_adapters,
            64);
  EXPECT_EQ(snapshot.adapter_copies, 1);
  EXPECT_EQ(snapshot.adapters_resident, 1);
  const std::string page = harness.metrics.Render();
  EXPECT_NE(page.find("graft_adapter_output_tokens_total{adapter=\"0123456789ab\"} 6"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("graft_requests_finished_total{reason=\"length\"} 2"), std::string::npos);
  EXPECT_NE(page.find("graft_time_to_first_token_seconds_count 2"), std::string::npos);
  EXPECT_NE(page.find("graft_inter_token_seconds_count 4"), std::string::npos);
}

}  // namespace
}  // namespace graft
