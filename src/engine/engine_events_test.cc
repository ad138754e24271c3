// One thread drives several engines by the functions that a step consists of, on one virtual clock.
// Requests, cold loads and cancels meet steps in every state, and no call ever waits. The tokens
// are those of engines that have threads of their own.
#include <map>
#include <queue>
#include <thread>

#include "engine/engine_testing.h"

namespace graft {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

// Work that is due at given times. Work for the same time runs in the order in which it was added.
class VirtualTime {
 public:
  const ManualClock& clock() const { return clock_; }
  ManualClock& clock() { return clock_; }
  int64_t now_ns() const { return clock_.NowNs(); }
  void At(int64_t ns, std::function<void()> work) {
    events_.emplace(std::pair(std::max(ns, now_ns()), num_events_++), std::move(work));
  }
  void After(int64_t ns, std::function<void()> work) { At(now_ns() + ns, std::move(work)); }
  void RunAll() {
    while (!events_.empty()) {
      auto event = events_.extract(events_.begin());
      clock_.AdvanceNs(event.key().first - now_ns());
      event.mapped()();
    }
  }

 private:
  ManualClock clock_;
  std::map<std::pair<int64_t, int64_t>, std::function<void()>> events_;
  int64_t num_events_ = 0;
};

// Steps take time by the virtual clock, one after the other.
class TimedExecutor : public Executor {
 public:
  TimedExecutor(FakeExecutor& inner, const VirtualTime& time, int64_t step_ns)
      : inner_(inner), time_(time), step_ns_(step_ns) {}
  const ExecutorLimits& limits() const override { return inner_.limits(); }
  void Begin(const StepPlan& plan) override {
    inner_.Begin(plan);
    last_end_ns_ = std::max(last_end_ns_, time_.now_ns()) + step_ns_ +
                   100'000 * static_cast<int64_t>(plan.tokens.size() - plan.sequences.size());
    ends_ns_.push(last_end_ns_);
  }
  bool Wait(const std::atomic<bool>&, int64_t) override {
    ADD_FAILURE() << "nobody waits";
    return true;
  }
  StepResult Finish() override {
    EXPECT_LE(end_ns(), time_.now_ns()) << "it is not done";
    ends_ns_.pop();
    return inner_.Finish();
  }
  // When the step that was begun first ends.
  int64_t end_ns() const { return ends_ns_.front(); }

 private:
  FakeExecutor& inner_;
  const VirtualTime& time_;
  const int64_t step_ns_;
  int64_t last_end_ns_ = 0;
  std::queue<int64_t> ends_ns_;
};

// Loads take time by the virtual clock, beside each other, and wake the engine when they end.
class TimedLoader : public AdapterLoader {
 public:
  TimedLoader(FakeLoader& inner, VirtualTime& time, int64_t load_ns)
      : inner_(inner), time_(time), load_ns_(load_ns) {
    inner_.set_delay(1 << 30);  // until told to end
  }
  void Fetch(FetchOrder order) override {
    inner_.Fetch(std::move(order));
    RingLater();
  }
  bool Copy(CopyOrder order) override {
    const bool usable = inner_.Copy(std::move(order));
    RingLater();
    return usable;
  }
  std::optional<AdapterFacts> FindInHost(const std::string& hash) const override {
    return inner_.FindInHost(hash);
  }
  void Drop(int32_t content) override { inner_.Drop(content); }
  void Free(AdapterSlot slot) override { inner_.Free(slot); }
  std::vector<LoadEvent> TakeEvents() override {
    std::vector<LoadEvent> events;
    for (; !ends_ns_.empty() && ends_ns_.front() <= time_.now_ns(); ends_ns_.pop()) {
      inner_.WaitForEvent();
      for (LoadEvent& event : inner_.TakeEvents()) events.push_back(std::move(event));
    }
    return events;
  }
  void WaitForEvent() override { ADD_FAILURE() << "nobody waits"; }
  void SetWaker(std::function<void()> waker) override { waker_ = std::move(waker); }
  // Called when the engine should look at its loads.
  void SetOnRing(std::function<void()> on_ring) { on_ring_ = std::move(on_ring); }

 private:
  void RingLater() {
    ends_ns_.push(time_.now_ns() + load_ns_);
    time_.After(load_ns_, [this] {
      waker_();
      on_ring_();
    });
  }
  FakeLoader& inner_;
  VirtualTime& time_;
  const int64_t load_ns_;
  std::queue<int64_t> ends_ns_;
  std::function<void()> waker_;
  std::function<void()> on_ring_;
};

// An engine together with the events that drive it.
class Node {
 public:
  Node(VirtualTime& time, const ExecutorLimits& limits, const EngineOptions& options,
       int64_t step_ns, int64_t load_ns)
      : time_(time),
        fake_executor_(limits),
        fake_loader_(fake_executor_),
        executor_(fake_executor_, time, step_ns),
        loader_(fake_loader_, time, load_ns),
        engine_(executor_, adapters_, loader_, time.clock(), metrics_, options) {
    loader_.SetOnRing([this] { BeginIfIdle(); });
    for (const char* hash : {"c0", "c1", "c2"}) {
      EXPECT_TRUE(adapters_.Publish({.path = hash, .hash = hash, .key = hash}).ok());
    }
  }

  std::unique_ptr<TestClient> Submit(const Request& request) {
    auto client = std::make_unique<TestClient>();
    client->request = request;
    EXPECT_TRUE(engine_.Submit(request, client->stream).ok());
    if (engine_.is_running()) {
      engine_.OnSubmitted();
    } else {
      BeginIfIdle();
    }
    return client;
  }
  void Cancel(RequestId id) {
    engine_.Cancel(id);
    BeginIfIdle();
  }
  const Engine& engine() const { return engine_; }

 private:
  void BeginIfIdle() {
    if (engine_.is_running() || !engine_.BeginStep()) return;
    EXPECT_TRUE(engine_.is_running());
    const int64_t end_ns = executor_.end_ns();
    if (engine_.ahead_time_ns() < end_ns) {
      time_.At(engine_.ahead_time_ns(), [this] { engine_.OnAheadTime(); });
    }
    time_.At(end_ns, [this] {
      engine_.EndStep();
      EXPECT_FALSE(engine_.is_running());
      EXPECT_EQ(engine_.CheckIntegrity().ToString(), "OK");
      BeginIfIdle();
    });
  }

  VirtualTime& time_;
  FakeExecutor fake_executor_;
  FakeLoader fake_loader_;
  TimedExecutor executor_;
  TimedLoader loader_;
  ContentTable adapters_{10};
  Metrics metrics_;
  Engine engine_;
};

struct NodeShape {
  ExecutorLimits limits;
  EngineOptions options;
  int64_t step_ns = 0;
  int64_t load_ns = 0;
};

std::vector<NodeShape> NodeShapes() {
  std::vector<NodeShape> shapes;
  const auto add = [&](ColdStart cold_start, int64_t step_ns, int64_t load_ns) -> NodeShape& {
    NodeShape& shape =
        shapes.emplace_back(NodeShape{TestLimits(), TestOptions(), step_ns, load_ns});
    shape.options.scheduler.cold_start = cold_start;
    shape.limits.runs_ahead = true;
    return shape;
  };
  add(ColdStart::kAuto, 5 * kMillisecond, 3 * kMillisecond);
  add(ColdStart::kJoinLater, 2 * kMillisecond, 40 * kMillisecond).limits.num_pages =
      20;  // small enough for preemptions, too
  add(ColdStart::kBlocking, 7 * kMillisecond, 11 * kMillisecond);
  add(ColdStart::kLayerwise, 3 * kMillisecond, 9 * kMillisecond).limits.adapters_max = 1;
  return shapes;
}

Request RequestOf(int i) {
  Request request;
  request.id = static_cast<RequestId>(1 + i);
  request.prompt_tokens = Prompt(3 + i * 5 % 20, 2 + i % 3);
  request.UseAdapter(i % 4 == 3 ? "" : "c" + std::to_string(i % 4));
  request.sampling.tokens_max = 1 + i * 7 % 25;
  request.sampling.seed = SeedOfTenant("", static_cast<uint32_t>(i));
  request.sampling.ignore_eos = true;
  return request;
}

constexpr int kRequests = 40;
bool IsCancelled(int i) { return i % 6 == 5; }

// Everything that came out of the engines, and the snapshots at the end.
struct Outcome {
  std::vector<std::vector<std::vector<int32_t>>> tokens;  // by engine and request
  std::vector<EngineSnapshot> snapshots;
  int64_t end_ns = 0;
};

Outcome RunOnOneThread() {
  VirtualTime time;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::vector<std::unique_ptr<TestClient>>> clients;
  for (const NodeShape& shape : NodeShapes()) {
    nodes.push_back(
        std::make_unique<Node>(time, shape.limits, shape.options, shape.step_ns, shape.load_ns));
    clients.emplace_back(kRequests);
  }
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (int i = 0; i < kRequests; ++i) {
      const int64_t arrival_ns = i / 4 * (13 * kMillisecond + static_cast<int64_t>(n) * 77'000);
      time.At(arrival_ns, [&, n, i] { clients[n][i] = nodes[n]->Submit(RequestOf(i)); });
      if (!IsCancelled(i)) continue;
      time.At(arrival_ns + i % 5 * 9 * kMillisecond,
              [&, n, i] { nodes[n]->Cancel(RequestOf(i).id); });
    }
  }
  time.RunAll();
  Outcome outcome;
  outcome.end_ns = time.now_ns();
  for (size_t n = 0; n < nodes.size(); ++n) {
    outcome.tokens.emplace_back();
    for (const auto& client : clients[n]) {
      client->Collect();
      EXPECT_TRUE(client->done()) << "engine " << n << ", request " << client->request.id.number;
      if (!client->done()) continue;
      const bool is_cancelled = client->last().finish_reason == FinishReason::kCancelled;
      EXPECT_TRUE(!is_cancelled || IsCancelled(static_cast<int>(client->request.id.number) - 1));
      EXPECT_EQ(client->last().status.ToString(), "OK");
      outcome.tokens.back().push_back(client->output());
    }
    outcome.snapshots.push_back(nodes[n]->engine().Snapshot());
  }
  return outcome;
}

// The same requests, without the cancels, through an engine that has a thread of its own.
std::vector<std::vector<int32_t>> RunOnItsThread(const NodeShape& shape) {
  FakeExecutor executor(shape.limits);
  FakeLoader loader(executor);
  ContentTable adapters(10);
  Metrics metrics;
  for (const char* hash : {"c0", "c1", "c2"}) {
    EXPECT_TRUE(adapters.Publish({.path = hash, .hash = hash, .key = hash}).ok());
  }
  Engine engine(executor, adapters, loader, SteadyClock::Get(), metrics, shape.options);
  engine.Start();
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (int i = 0; i < kRequests; ++i) {
    streams.push_back(std::make_shared<TokenStream>());
    EXPECT_TRUE(engine.Submit(RequestOf(i), streams.back()).ok());
  }
  std::vector<std::vector<int32_t>> tokens;
  for (const auto& stream : streams) {
    tokens.emplace_back();
    for (;;) {
      const TokenEvent event = stream->Pop();
      if (event.token >= 0) tokens.back().push_back(event.token);
      if (event.finish_reason != FinishReason::kNone) break;
    }
  }
  return tokens;
}

TEST(EngineEventsTest, OneThreadDrivesManyEnginesToTheTokensOfThreads) {
  const Outcome outcome = RunOnOneThread();
  const std::vector<NodeShape> shapes = NodeShapes();
  ASSERT_EQ(outcome.tokens.size(), shapes.size());
  int num_cut = 0;
  for (size_t n = 0; n < shapes.size(); ++n) {
    SCOPED_TRACE(n);
    const std::vector<std::vector<int32_t>> threaded = RunOnItsThread(shapes[n]);
    ASSERT_EQ(outcome.tokens[n].size(), threaded.size());
    for (int i = 0; i < kRequests; ++i) {
      std::vector<int32_t> expected = threaded[static_cast<size_t>(i)];
      const std::vector<int32_t>& tokens = outcome.tokens[n][static_cast<size_t>(i)];
      if (IsCancelled(i)) {
        num_cut += tokens.size() < expected.size() ? 1 : 0;
        expected.resize(tokens.size());
      }
      EXPECT_EQ(tokens, expected) << "request " << i;
    }
    EXPECT_GT(outcome.snapshots[n].adapter_fetches, 0);
    EXPECT_GT(outcome.snapshots[n].steps_ahead, 0);
    EXPECT_EQ(outcome.snapshots[n].pages_referenced, 0);
    EXPECT_EQ(outcome.snapshots[n].requests_running + outcome.snapshots[n].requests_waiting, 0);
  }
  EXPECT_GT(num_cut, 10);
  EXPECT_GT(outcome.snapshots[1].preemptions, 0);
  EXPECT_GT(outcome.snapshots[1].join_later_starts, 0);
  EXPECT_GT(outcome.snapshots[3].layerwise_starts, 0);
  EXPECT_GT(outcome.snapshots[3].adapter_evictions, 0);
}

// The run depends on nothing but the virtual clock: no thread, no chance.
TEST(EngineEventsTest, AVirtualRunIsTheSameEveryTime) {
  const Outcome first = RunOnOneThread();
  const Outcome second = RunOnOneThread();
  EXPECT_EQ(first.end_ns, second.end_ns);
  EXPECT_EQ(first.tokens, second.tokens);
  for (size_t n = 0; n < first.snapshots.size(); ++n) {
    EXPECT_EQ(first.snapshots[n].steps, second.snapshots[n].steps);
    EXPECT_EQ(first.snapshots[n].steps_ahead, second.snapshots[n].steps_ahead);
    EXPECT_EQ(first.snapshots[n].executor_ns, second.snapshots[n].executor_ns);
    EXPECT_EQ(first.snapshots[n].decode_iteration_ns, second.snapshots[n].decode_iteration_ns);
    EXPECT_EQ(first.snapshots[n].adapter_copies, second.snapshots[n].adapter_copies);
  }
}

// Stop comes between BeginStep and EndStep, so the running step is ended first.
TEST(EngineEventsTest, StopEndsTheStepThatRuns) {
  EngineHarness harness;
  auto client = harness.Submit(harness.MakeRequest(Prompt(5), 9));
  ASSERT_TRUE(harness.engine.BeginStep());
  harness.engine.Stop();
  EXPECT_FALSE(harness.engine.is_running());
  client->Collect();
  ASSERT_TRUE(client->done());
  EXPECT_EQ(client->last().finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(client->output().size(), 1u);
  EXPECT_EQ(harness.engine.Snapshot().pages_referenced, 0);
}

TEST(EngineEventsDeathTest, EventsOutOfTurnAreBugs) {
  EngineHarness harness;
  EXPECT_DEATH(harness.engine.OnSubmitted(), "BeginStep takes them in");
  EXPECT_DEATH(harness.engine.EndStep(), "no step was begun");
  auto client = harness.Submit(harness.MakeRequest(Prompt(5), 9));
  EXPECT_DEATH(
      {
        harness.engine.BeginStep();
        harness.engine.BeginStep();
      },
      "EndStep comes first");
}

}  // namespace
}  // namespace graft
