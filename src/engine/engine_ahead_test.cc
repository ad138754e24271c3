// Steps that begin before the step in front of them has ended: when that happens, and what becomes
// of requests that stop meanwhile.
#include "engine/engine_testing.h"

namespace graft {
namespace {

ExecutorLimits AheadLimits() {
  ExecutorLimits limits = TestLimits();
  limits.runs_ahead = true;
  return limits;
}

class EngineAheadTest : public testing::Test {
 protected:
  void Make(const EngineOptions& options = TestOptions(),
            const ExecutorLimits& limits = AheadLimits()) {
    harness_ = std::make_unique<EngineHarness>(limits, options);
  }
  void AddAdapter(const std::string& hash, int32_t num_rows) {
    harness_->loader.SetRows(hash, {{kRowAlignment, num_rows}});
    ASSERT_TRUE(harness_->AddAdapter(hash));
  }
  std::unique_ptr<TestClient> Submit(int32_t prompt_tokens, int32_t tokens_max,
                                     const std::string& adapter = "") {
    Request request = harness_->MakeRequest(Prompt(prompt_tokens), tokens_max);
    request.UseAdapter(adapter);
    return harness_->Submit(std::move(request));
  }
  // Afterwards the adapter is resident.
  void Run(const std::string& adapter) {
    auto client = Submit(5, 2, adapter);
    harness_->RunAll();
    ExpectAnswered(*client);
  }
  void Step(int count) {
    for (int i = 0; i < count; ++i) harness_->Step();
  }
  void StepTaking(int64_t ms) {
    harness_->executor.DoBesideNextStep([this, ms] { harness_->clock.AdvanceNs(ms * 1'000'000); });
    harness_->Step();
  }
  // Runs until nothing is left, and returns how many steps were begun ahead.
  int64_t RunAll() {
    harness_->RunAll();
    return Now().steps_ahead;
  }
  void ExpectAnswered(TestClient& client) {
    client.Collect();
    ASSERT_TRUE(client.done());
    EXPECT_EQ(client.output(), harness_->Reference(client.request));
  }
  EngineSnapshot Now() const { return harness_->engine.Snapshot(); }

  std::unique_ptr<EngineHarness> harness_;
};

TEST_F(EngineAheadTest, DecodeStepsAreBegunAheadUntilALengthEnds) {
  Make();
  auto longer = Submit(5, 9);
  auto shorter = Submit(6, 4);
  // Step 2 is the first one without a prompt, and its duration is not known. Step 4 is begun ahead.
  // Step 5 is not, since a request ends before it. The other's steps 6 to 9 are.
  EXPECT_EQ(RunAll(), 1 + 4);
  EXPECT_EQ(Now().steps, 9);
  ExpectAnswered(*longer);
  ExpectAnswered(*shorter);
}

TEST_F(EngineAheadTest, StepsAfterPromptsAreBegunAheadOnceTheirTimeIsKnown) {
  Make();
  auto running = Submit(5, 30);
  for (int i = 0; i < 4; ++i) StepTaking(7);
  auto second = Submit(6, 20);
  StepTaking(7);  // this step was begun ahead
  const int64_t before = Now().steps_ahead;
  StepTaking(9);  // the first with a prompt's rows beside decode rows
  EXPECT_EQ(Now().steps_ahead, before) << "nobody knows how long they take";
  StepTaking(7);
  auto third = Submit(7, 10);
  StepTaking(7);
  const int64_t then = Now().steps_ahead;
  StepTaking(9);
  EXPECT_EQ(Now().steps_ahead, then + 1) << "the step after the third's prompt";
  Request request = harness_->MakeRequest(Prompt(8), 10);
  request.sampling.prompt_logprobs = true;
  auto fourth = harness_->Submit(request);
  StepTaking(7);
  const int64_t last = Now().steps_ahead;
  StepTaking(9);
  EXPECT_EQ(Now().steps_ahead, last) << "log-probabilities of its prompt are still to be formed";
  RunAll();
  ExpectAnswered(*running);
  ExpectAnswered(*second);
  ExpectAnswered(*third);
  ExpectAnswered(*fourth);
}

// The engine's clock may differ from the machine's, so an executor is told a duration, not a time.
TEST_F(EngineAheadTest, TheNextStepIsBegunSoLongBeforeThisOneEnds) {
  for (const int64_t ahead_ms : {1, 3}) {
    EngineOptions options = TestOptions();
    options.ahead_ns = ahead_ms * 1'000'000;
    Make(options);
    harness_->clock.AdvanceNs(int64_t{1} << 60);
    auto client = Submit(5, 9);
    StepTaking(9);
    StepTaking(7);  // from here on a step's duration is known
    StepTaking(7);
    EXPECT_EQ(harness_->executor.last_timeout_ns(), (7 - ahead_ms) * 1'000'000);
    RunAll();
    ExpectAnswered(*client);
  }
}

// What others had the device for is no part of how long steps take.
TEST_F(EngineAheadTest, NoStepIsBegunAheadWhereOthersHaveTheDeviceBehindTheOneThatRuns) {
  EngineOptions options = TestOptions();
  options.ahead_ns = 1'000'000;
  Make(options);
  auto client = Submit(5, 20);
  for (int i = 0; i < 3; ++i) StepTaking(7);
  const int64_t before = Now().steps_ahead;
  harness_->executor.SetOthers(/*follow=*/true, 3'000'000);
  for (int i = 0; i < 5; ++i) StepTaking(10);
  EXPECT_EQ(Now().steps_ahead, before);
  harness_->executor.SetOthers(/*follow=*/false, 3'000'000);
  StepTaking(10);
  EXPECT_EQ(harness_->executor.last_timeout_ns(), 6'000'000);
  EXPECT_EQ(Now().steps_ahead, before + 1);
  RunAll();
  ExpectAnswered(*client);
}

TEST_F(EngineAheadTest, CanBeSwitchedOff) {
  EngineOptions options = TestOptions();
  options.runs_ahead = false;
  Make(options);
  auto client = Submit(5, 9);
  EXPECT_EQ(RunAll(), 0);
  ExpectAnswered(*client);
}

TEST_F(EngineAheadTest, AStopKeepsItsPagesUntilTheStepAheadIsDone) {
  Make();
  Request request = harness_->MakeRequest(Prompt(5), 20);
  request.sampling.stop_token_ids = {harness_->Reference(request)[6]};
  const std::vector<int32_t> expected = harness_->Reference(request);
  ASSERT_LE(expected.size(), 7u);
  auto client = harness_->Submit(request);
  Step(static_cast<int>(expected.size()));
  client->Collect();
  ASSERT_TRUE(client->done()) << "nobody waits for the step ahead to hear of the end";
  EXPECT_EQ(client->output(), expected);
  EXPECT_EQ(client->last().finish_reason, FinishReason::kStop);
  EXPECT_EQ(Now().requests_running, 0);
  EXPECT_GT(Now().pages_referenced, 0);
  EXPECT_TRUE(harness_->Step());
  EXPECT_EQ(Now().pages_referenced, 0);
  EXPECT_EQ(Now().output_tokens, static_cast<int64_t>(expected.size()));
  EXPECT_FALSE(harness_->Step());
}

TEST_F(EngineAheadTest, ACancelKeepsPagesAndAdapterUntilTheStepAheadIsDone) {
  Make();
  ASSERT_TRUE(harness_->AddAdapter("aa"));
  ASSERT_TRUE(harness_->engine.PinAdapters({"aa"}).ok());
  Request request = harness_->MakeRequest(Prompt(5), 30);
  request.UseAdapter("aa");
  auto cancelled = harness_->Submit(request);
  auto other = Submit(7, 30);
  Step(4);
  harness_->engine.Cancel(cancelled->request.id);
  harness_->adapters.Retire("aa");
  Step(1);
  cancelled->Collect();
  ASSERT_TRUE(cancelled->done());
  EXPECT_EQ(cancelled->last().finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(cancelled->output().size(), 4u);
  RunAll();
  ExpectAnswered(*other);
}

TEST_F(EngineAheadTest, ANotFiniteResultEndsItsRequestAlone) {
  Make();
  Request poisoned = harness_->MakeRequest({2, 3, kPoisonToken}, 10);
  auto failed = harness_->Submit(poisoned);
  auto other = Submit(7, 10);
  RunAll();
  failed->Collect();
  EXPECT_EQ(failed->last().finish_reason, FinishReason::kError);
  EXPECT_EQ(failed->events.size(), 1u);
  ExpectAnswered(*other);
}

TEST_F(EngineAheadTest, WhoeverWaitsIsAdmittedByTheStepAfterTheOneAhead) {
  Make();
  auto running = Submit(5, 30);
  Step(3);
  auto newcomer = Submit(6, 5);
  const int64_t before = Now().steps_ahead;
  Step(1);  // was begun before; none is begun behind it
  EXPECT_EQ(Now().steps_ahead, before);
  newcomer->Collect();
  EXPECT_TRUE(newcomer->events.empty());
  Step(1);
  newcomer->Collect();
  EXPECT_EQ(newcomer->output().size(), 1u);
  RunAll();
  ExpectAnswered(*running);
  ExpectAnswered(*newcomer);
}

TEST_F(EngineAheadTest, WhatDependsOnTheLastTokenWaitsForIt) {
  const auto steps_ahead = [&](const std::function<void(SamplingParams&)>& change) {
    Make();
    Request request = harness_->MakeRequest(Prompt(5), 10);
    change(request.sampling);
    auto client = harness_->Submit(request);
    const int64_t steps = RunAll();
    ExpectAnswered(*client);
    return steps;
  };
  EXPECT_EQ(steps_ahead([](SamplingParams&) {}), 7);
  EXPECT_EQ(steps_ahead([](SamplingParams& p) { p.repetition_penalty = 1.2f; }), 0);
  EXPECT_EQ(steps_ahead([](SamplingParams& p) { p.frequency_penalty = 0.5f; }), 0);
  EXPECT_EQ(steps_ahead([](SamplingParams& p) { p.presence_penalty = 0.5f; }), 0);
  EXPECT_EQ(steps_ahead([](SamplingParams& p) { p.bad_words = {{2, 3}}; }), 0);
  EXPECT_EQ(steps_ahead([](SamplingParams& p) { p.allowed_token_ids = {7, 30}; }), 7);
  // min_tokens bans the stop tokens in the first five draws.
  EXPECT_EQ(steps_ahead([](SamplingParams& p) { p.tokens_min = 5; }), 5);
}

// Two requests have the same prompt and seed. Whenever a page is full, the second takes over the
// first one's page. FakeExecutor checks the targets of copies.
TEST_F(EngineAheadTest, NoAdapterIsCopiedToAPageThatTheStepAheadReads) {
  ExecutorLimits limits = AheadLimits();
  limits.adapters_max = 1;
  Make(TestOptions(), limits);
  AddAdapter("aa", 30);  // three pages
  AddAdapter("bb", 10);  // one
  Run("aa");
  Run("bb");  // aa is now in the host's memory only
  Request request = harness_->MakeRequest(Prompt(5), 30);
  auto first = harness_->Submit(request);
  request.id = ++harness_->last_id;
  auto second = harness_->Submit(request);
  Step(4);  // eight positions fill two pages
  const int64_t copies = Now().adapter_copies;
  std::unique_ptr<TestClient> newcomer;
  harness_->executor.DoBesideNextStep([&] { newcomer = Submit(6, 2, "aa"); });
  Step(1);
  EXPECT_EQ(Now().adapter_copies, copies + 1);
  RunAll();
  ExpectAnswered(*first);
  ExpectAnswered(*second);
  ExpectAnswered(*newcomer);
}

TEST_F(EngineAheadTest, WhoWaitsKeepsItsAdapterFromThoseWhoComeAfterTheStepAhead) {
  ExecutorLimits limits = AheadLimits();
  limits.adapters_max = 1;
  limits.sequences_max = 2;
  Make(TestOptions(), limits);
  AddAdapter("aa", 2);
  AddAdapter("bb", 2);
  Run("bb");
  Run("aa");
  auto first = Submit(5, 30);
  auto second = Submit(6, 30);
  auto waiting = Submit(7, 2, "aa");
  Step(1);  // the next step is planned anew, and one is begun ahead behind it
  const int64_t evictions = Now().adapter_evictions;
  std::unique_ptr<TestClient> newcomer;
  harness_->executor.DoBesideNextStep([&] { newcomer = Submit(8, 2, "bb"); }, /*late=*/true);
  Step(1);
  EXPECT_EQ(Now().adapter_evictions, evictions);
  RunAll();
  for (TestClient* const client : {first.get(), second.get(), waiting.get(), newcomer.get()}) {
    ExpectAnswered(*client);
  }
}

// When a step ends, everything that it waited for has come, and the set of running requests is
// known.
TEST_F(EngineAheadTest, AStepAfterArrivalsIsBegunAheadOnceTheyHaveCome) {
  for (const int delay : {1, 9}) {
    SCOPED_TRACE(delay);
    ExecutorLimits limits = AheadLimits();
    limits.adapters_max = 1;
    EngineOptions options = TestOptions();
    options.scheduler.cold_start = ColdStart::kLayerwise;
    Make(options, limits);
    AddAdapter("aa", 2);
    AddAdapter("bb", 2);
    Run("aa");
    Run("bb");  // aa is now in the host's memory only
    auto running = Submit(5, 40);
    for (int i = 0; i < 4; ++i) StepTaking(7);
    auto teacher = Submit(6, 4);  // shows how long steps with a prompt take
    StepTaking(7);                // this step was begun ahead
    StepTaking(9);
    for (int i = 0; i < 7; ++i) StepTaking(7);
    ExpectAnswered(*teacher);
    harness_->loader.set_delay(delay);
    auto late = Submit(6, 8, "aa");
    StepTaking(7);
    const int64_t ahead = Now().steps_ahead;
    const int64_t arrivals = Now().steps_with_arrivals;
    StepTaking(9);
    EXPECT_EQ(Now().steps_with_arrivals, arrivals + 1);
    EXPECT_EQ(Now().steps_ahead, ahead + (delay == 1 ? 1 : 0));
    RunAll();
    ExpectAnswered(*running);
    ExpectAnswered(*late);
  }
}

// Loads for requests in line begin only when a step is planned anew.
TEST_F(EngineAheadTest, BlockingLoadsForThoseInLineThoughTheBatchIsFull) {
  ExecutorLimits limits = AheadLimits();
  limits.sequences_max = 2;
  EngineOptions options = TestOptions();
  options.scheduler.cold_start = ColdStart::kBlocking;
  Make(options, limits);
  AddAdapter("aa", 2);
  auto first = Submit(5, 30);
  auto second = Submit(6, 30);
  Step(5);
  EXPECT_GT(Now().steps_ahead, 0);
  auto waiting = Submit(7, 2, "aa");
  Step(3);
  EXPECT_EQ(harness_->loader.num_copies(), 1);
  EXPECT_EQ(Now().requests_running, 2);
  RunAll();
  for (TestClient* const client : {first.get(), second.get(), waiting.get()}) {
    ExpectAnswered(*client);
  }
}

TEST_F(EngineAheadTest, GapsAreWhatTheDeviceMeasured) {
  Make();
  harness_->executor.SetIdleNs(40);
  auto first = Submit(5, 9);
  RunAll();
  const EngineSnapshot one = Now();
  EXPECT_EQ(one.gap_ns, 40 * (one.steps - 1)) << "before the first step there was nothing to do";
  auto second = Submit(5, 9);
  RunAll();
  EXPECT_EQ(Now().gap_ns, 2 * one.gap_ns) << "nor between the two requests";
  ExpectAnswered(*first);
  ExpectAnswered(*second);
}

TEST_F(EngineAheadTest, WhereTheDeviceMeasuresNothingTheHostCounts) {
  Make();
  auto client = Submit(5, 3);
  Step(1);
  harness_->clock.AdvanceNs(700);
  Step(1);
  EXPECT_EQ(Now().gap_ns, 700 + 1000);  // the harness lets 1000 ns pass before each step
  RunAll();
  ExpectAnswered(*client);
}

TEST_F(EngineAheadTest, StopEndsWhatWasBegunAhead) {
  Make();
  auto client = Submit(5, 30);
  Step(3);
  harness_->engine.Stop();
  client->Collect();
  EXPECT_EQ(client->last().finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(Now().pages_referenced, 0);
}

}  // namespace
}  // namespace graft
