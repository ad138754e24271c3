// The engine on its own thread: submitters, readers, cancels, retirement and draining, all at once.
// The test is clean under TSan.
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "engine/engine_testing.h"
#include "grammar/grammar_store.h"

namespace graft {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kSubmitters = 8;

// Uses SteadyClock, because the harness's ManualClock belongs to one thread.
struct ThreadedEngine {
  explicit ThreadedEngine(const ExecutorLimits& limits = TestLimits(),
                          const EngineOptions& options = TestOptions())
      : executor(limits),
        loader(executor),
        adapters(100),
        engine(executor, adapters, loader, SteadyClock::Get(), metrics, options) {
    for (const char* hash : {"c0", "c1"}) LoadAdapter(hash);
  }

  // Changes nothing if the adapter is there already.
  void LoadAdapter(const std::string& hash) {
    (void)adapters.Publish({.path = hash, .hash = hash, .key = hash});
  }

  Request MakeRequest(int32_t prompt_tokens, int32_t tokens_max) {
    Request request;
    request.id = ++last_id;
    request.prompt_tokens = Prompt(prompt_tokens);
    request.UseAdapter(request.id.number % 3 == 0 ? "" : request.id.number % 3 == 1 ? "c0" : "c1");
    request.sampling.tokens_max = tokens_max;
    request.sampling.seed = SeedOfTenant("", static_cast<uint32_t>(request.id.number));
    request.sampling.ignore_eos = true;
    return request;
  }

  FakeExecutor executor;
  FakeLoader loader;
  ContentTable adapters;
  Metrics metrics;
  std::atomic<uint64_t> last_id = 0;
  Engine engine;
};

// Reads until the last event.
std::vector<TokenEvent> ReadAll(TokenStream& stream) {
  std::vector<TokenEvent> events;
  do {
    events.push_back(stream.Pop());
  } while (events.back().finish_reason == FinishReason::kNone);
  return events;
}

TEST(EngineThreadTest, EightSubmittersGetTheirOwnAnswers) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 20;  // small enough for preemptions, too
  ThreadedEngine threaded(limits);
  threaded.engine.Start();
  std::atomic<int> num_cancelled = 0;
  std::atomic<bool> stop = false;
  std::thread administrator([&] {
    while (!stop) {
      threaded.adapters.Retire("c1");
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      threaded.LoadAdapter("c1");
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  std::vector<std::thread> submitters;
  for (int submitter = 0; submitter < kSubmitters; ++submitter) {
    submitters.emplace_back([&, submitter] {
      for (int i = 0; i < 40; ++i) {
        const Request request = threaded.MakeRequest(1 + (submitter * 7 + i) % 30, 1 + i % 20);
        auto stream = std::make_shared<TokenStream>();
        const Status status = threaded.engine.Submit(request, stream);
        if (!status.ok()) {
          EXPECT_EQ(status.code(), StatusCode::kNotFound);
          EXPECT_EQ(request.adapter_hash(), "c1");
          continue;
        }
        const bool cancel = i % 5 == 4;
        if (cancel) threaded.engine.Cancel(request.id);
        const std::vector<TokenEvent> events = ReadAll(*stream);
        EXPECT_FALSE(stream->TryPop().has_value());
        if (events.back().finish_reason == FinishReason::kCancelled) {
          EXPECT_TRUE(cancel);
          ++num_cancelled;
          continue;
        }
        std::vector<int32_t> output;
        for (const TokenEvent& event : events) output.push_back(event.token);
        EXPECT_EQ(output, ReferenceOutput(request, {}, limits));
        (void)threaded.engine.Snapshot();
        (void)threaded.metrics.Render();
      }
    });
  }
  for (std::thread& submitter : submitters) submitter.join();
  stop = true;
  administrator.join();
  EXPECT_TRUE(threaded.engine.Drain(seconds(60)));
  threaded.engine.Stop();
  EXPECT_GT(num_cancelled, 0);
  EXPECT_EQ(threaded.engine.CheckIntegrity().ToString(), "OK");
  EXPECT_EQ(threaded.engine.Snapshot().pages_referenced, 0);
}

TEST(EngineThreadTest, DrainFinishesWhatRunsAndRefusesTheRest) {
  ThreadedEngine threaded;
  threaded.engine.Start();
  std::vector<std::pair<Request, std::shared_ptr<TokenStream>>> accepted;
  for (int i = 0; i < 20; ++i) {
    accepted.emplace_back(threaded.MakeRequest(10, 20), std::make_shared<TokenStream>());
    ASSERT_TRUE(threaded.engine.Submit(accepted.back().first, accepted.back().second).ok());
  }
  EXPECT_TRUE(threaded.engine.Drain(seconds(60)));
  EXPECT_EQ(
      threaded.engine.Submit(threaded.MakeRequest(10, 20), std::make_shared<TokenStream>()).code(),
      StatusCode::kUnavailable);
  for (auto& [request, stream] : accepted) {
    std::vector<int32_t> output;
    while (auto event = stream->TryPop()) output.push_back(event->token);
    EXPECT_EQ(output, ReferenceOutput(request, {}, TestLimits()));
  }
}

// Any token may come, and no step may wait for that to be told.
class LateMatcher : public GrammarMatcher {
 public:
  GrammarAnswer Accept(int32_t /*token*/, GrammarTime* /*time*/) override {
    return GrammarAnswer::kYes;
  }
  GrammarAnswer FillMask(std::span<uint32_t> words, GrammarTime* time) override {
    if (time->left_ns <= AnswerBounds::kStepNsMax) return GrammarAnswer::kOutOfTime;
    std::fill(words.begin(), words.end(), ~uint32_t{0});
    return GrammarAnswer::kYes;
  }
};

class LateGrammar : public CompiledGrammar {
 public:
  std::unique_ptr<GrammarMatcher> NewMatcher(std::shared_ptr<GrammarRoom> /*room*/) const override {
    return std::make_unique<LateMatcher>();
  }
  int64_t bytes() const override { return 1; }
};

class LateCompiler : public GrammarCompiler {
 public:
  std::shared_ptr<const CompiledGrammar> Compile(const std::string& /*grammar*/,
                                                 const std::function<bool()>& /*stops*/,
                                                 std::string* /*error*/) const override {
    return std::make_shared<LateGrammar>();
  }
};

// The engine's thread sleeps while all of its requests wait for masks, and hears of each; a request
// that leaves meanwhile leaves nothing behind.
TEST(EngineThreadTest, MasksThatAreMadeBesideTheStepsWakeIt) {
  GrammarStore grammars([]() -> Result<std::unique_ptr<GrammarCompiler>> {
    return std::unique_ptr<GrammarCompiler>(std::make_unique<LateCompiler>());
  });
  EngineOptions options = TestOptions();
  options.grammars = &grammars;
  ThreadedEngine threaded(TestLimits(), options);
  threaded.engine.Start();
  std::vector<std::thread> submitters;
  for (int submitter = 0; submitter < 4; ++submitter) {
    submitters.emplace_back([&, submitter] {
      for (int i = 0; i < 10; ++i) {
        Request request = threaded.MakeRequest(3 + submitter, 1 + i);
        Request plain = request;
        if (submitter < 3) request.grammar = "g" + std::to_string(i % 3);
        plain.sampling.ignore_eos = request.grammar.empty();  // a form ends with that token
        auto stream = std::make_shared<TokenStream>();
        EXPECT_TRUE(threaded.engine.Submit(request, stream).ok());
        const bool cancel = i % 5 == 4;
        if (cancel) threaded.engine.Cancel(request.id);
        std::vector<int32_t> output;
        const std::vector<TokenEvent> events = ReadAll(*stream);
        if (events.back().finish_reason == FinishReason::kCancelled) continue;
        for (const TokenEvent& event : events) output.push_back(event.token);
        EXPECT_EQ(output, ReferenceOutput(plain, options.scheduler.eos_token_ids, TestLimits()));
      }
    });
  }
  for (std::thread& submitter : submitters) submitter.join();
  EXPECT_TRUE(threaded.engine.Drain(seconds(60)));
  threaded.engine.Stop();
  EXPECT_EQ(threaded.engine.CheckIntegrity().ToString(), "OK");
  EXPECT_EQ(grammars.bytes_held(), 0);
}

// An executor with slow steps, so that a deadline passes first.
class SlowExecutor : public Executor {
 public:
  explicit SlowExecutor(Executor& inner) : inner_(inner) {}
  const ExecutorLimits& limits() const override { return inner_.limits(); }
  void Begin(const StepPlan& plan) override { inner_.Begin(plan); }
  StepResult Finish() override {
    std::this_thread::sleep_for(milliseconds(20));
    return inner_.Finish();
  }

 private:
  Executor& inner_;
};

// Room for more tokens than any machine draws before a deadline of less than a second.
ExecutorLimits EndlessLimits() {
  ExecutorLimits limits = TestLimits();
  limits.context_tokens_max = 100'000;
  limits.num_pages = 100'000 / limits.page_tokens + 1;
  return limits;
}

// An engine over a SlowExecutor with one long request under way.
class SlowEngine {
 public:
  explicit SlowEngine(Clock& clock)
      : engine_(slow_, adapters_, loader_, clock, metrics_, TestOptions()) {
    engine_.Start();
    Request request;
    request.id = 1;
    request.prompt_tokens = Prompt(4);
    request.sampling.tokens_max = 90'000;
    request.sampling.ignore_eos = true;
    EXPECT_TRUE(engine_.Submit(request, stream_).ok());
  }
  bool Drain(std::chrono::nanoseconds limit) { return engine_.Drain(limit); }
  std::vector<TokenEvent> Events() { return ReadAll(*stream_); }

 private:
  FakeExecutor fast_{EndlessLimits()};
  SlowExecutor slow_{fast_};
  FakeLoader loader_{fast_};
  ContentTable adapters_{1};
  Metrics metrics_;
  std::shared_ptr<TokenStream> stream_ = std::make_shared<TokenStream>();
  Engine engine_;
};

TEST(EngineThreadTest, DrainCancelsAtTheDeadline) {
  SlowEngine slow(SteadyClock::Get());
  EXPECT_FALSE(slow.Drain(milliseconds(100)));
  const std::vector<TokenEvent> events = slow.Events();
  EXPECT_EQ(events.back().finish_reason, FinishReason::kCancelled);
  EXPECT_LT(events.size(), 90'000u);
}

// The deadline is a day away by the engine's clock, which is not the machine's.
TEST(EngineThreadTest, TheDeadlineIsByTheEnginesClock) {
  class FastClock : public Clock {
   public:
    int64_t NowNs() const override { return (SteadyClock::Get().NowNs() - begin_ns_) * 1'000'000; }

   private:
    const int64_t begin_ns_ = SteadyClock::Get().NowNs();
  };
  FastClock clock;
  SlowEngine slow(clock);
  EXPECT_FALSE(slow.Drain(std::chrono::hours(24)));
  EXPECT_EQ(slow.Events().back().finish_reason, FinishReason::kCancelled);
}

TEST(EngineThreadTest, StopEndsEveryStreamWhileSubmittersRun) {
  ThreadedEngine threaded;
  threaded.engine.Start();
  std::vector<std::thread> submitters;
  std::atomic<int> num_accepted = 0;
  for (int i = 0; i < 4; ++i) {
    submitters.emplace_back([&] {
      for (;;) {
        auto stream = std::make_shared<TokenStream>();
        const Status status = threaded.engine.Submit(threaded.MakeRequest(5, 50), stream);
        if (!status.ok()) {
          EXPECT_EQ(status.code(), StatusCode::kUnavailable);
          return;
        }
        ++num_accepted;
        ReadAll(*stream);
      }
    });
  }
  while (num_accepted < 20) std::this_thread::yield();
  threaded.engine.Stop();
  for (std::thread& submitter : submitters) submitter.join();
}

// An idle engine sleeps: its thread uses no processor time while there is no request.
TEST(EngineThreadTest, AnIdleEngineSleeps) {
  ThreadedEngine threaded;
  threaded.engine.Start();
  auto stream = std::make_shared<TokenStream>();
  ASSERT_TRUE(threaded.engine.Submit(threaded.MakeRequest(5, 5), stream).ok());
  ReadAll(*stream);
  const auto processor_ns = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  std::this_thread::sleep_for(milliseconds(20));
  const int64_t before_ns = processor_ns();
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_LT(processor_ns() - before_ns, 100'000'000);
  EXPECT_EQ(threaded.engine.Snapshot().steps, 5);
}

TEST(EngineThreadTest, AnIdleEngineForgetsWhatIsUnloaded) {
  ThreadedEngine threaded;
  threaded.engine.Start();
  for (int i = 0; i < 3; ++i) {
    auto stream = std::make_shared<TokenStream>();
    ASSERT_TRUE(threaded.engine.Submit(threaded.MakeRequest(5, 5), stream).ok());
    ReadAll(*stream);
  }
  ASSERT_EQ(threaded.adapters.num_contents(), 2);
  threaded.adapters.Retire("c0");
  for (int i = 0; i < 1000 && threaded.adapters.num_contents() > 1; ++i) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(threaded.adapters.num_contents(), 1);
}

}  // namespace
}  // namespace graft
