// Runners that die, drain, are full or compute otherwise, over the loopback: streams go on.
#include "cluster/runner_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <limits>
#include <optional>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "rpc/runner_service.h"

namespace graft {
namespace {

constexpr int32_t kVocabSize = 997;
constexpr std::chrono::seconds kPatience(60);  // against hangs alone

// What any runner draws for the request at this place.
int32_t TokenAt(const Request& request, size_t place) {
  return (request.prompt_tokens[0] * 31 + static_cast<int32_t>(place) * 7) % kVocabSize;
}

std::vector<int32_t> WholeAnswer(const Request& request) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < static_cast<size_t>(request.sampling.tokens_max); ++i) {
    tokens.push_back(TokenAt(request, i));
  }
  return tokens;
}

// An engine that draws a token for every request each millisecond, up to a bound that a test may
// set: what is to happen while a request runs must not depend on how fast that is here.
class SteppingGenerator : public Generator {
 public:
  SteppingGenerator() : thread_([this] { Loop(); }) {}
  ~SteppingGenerator() override {
    stopping_ = true;
    thread_.join();
  }

  Status Submit(Request request, std::shared_ptr<TokenStream> stream) override {
    std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(refusal_);
    num_taken_++;
    last_weight_ = request.tenant_weight;
    if (request.prompt_tokens[0] == poison_) {
      poison_id_ = request.id;
      poison_was_alone_ = request.runs_alone;
      return OkStatus();  // and draws nothing
    }
    running_[request.id] = {std::move(request), std::move(stream)};
    return OkStatus();
  }
  void Cancel(RequestId id) override {
    std::lock_guard lock(mutex_);
    const auto it = running_.find(id);
    if (it == running_.end()) return;
    it->second.stream->Push({.finish_reason = FinishReason::kCancelled});
    running_.erase(it);
  }
  GeneratorLimits limits() const override {
    return {.context_tokens_max = 10000, .vocab_size = kVocabSize, .requests_max = 100};
  }

  void SetOnDelivered(std::function<void()> on_delivered) {
    std::lock_guard lock(mutex_);
    on_delivered_ = std::move(on_delivered);
  }
  void set_refusal(const Status& refusal) {
    std::lock_guard lock(mutex_);
    refusal_ = refusal;
  }
  void SetOnStep(std::function<void(const StepNews&)> on_step) {
    std::lock_guard lock(mutex_);
    on_step_ = std::move(on_step);
  }
  // That a request has drawn at most, wherever it did.
  void set_drawn_max(size_t tokens) {
    std::lock_guard lock(mutex_);
    drawn_max_ = tokens;
  }
  // Without a step of its own it waits in line.
  void set_poison(int32_t token, bool in_step = true) {
    std::lock_guard lock(mutex_);
    poison_ = token;
    poison_in_step_ = in_step;
  }
  // The newest has no pages any more until there is room. False: none runs.
  bool EvictNewest() {
    std::lock_guard lock(mutex_);
    if (running_.empty() || !on_step_) return false;
    auto& [id, newest] = *running_.rbegin();
    newest.is_evicted = true;
    on_step_({.evicted = {&id, 1}});
    return true;
  }
  void MakeRoom() {
    std::lock_guard lock(mutex_);
    for (auto& [id, running] : running_) running.is_evicted = false;
  }
  // Until the next request that begins with the poison; whether it was to run alone.
  bool WaitForPoison() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [this] { return poison_came_; }));
    poison_came_ = false;
    return poison_was_alone_;
  }
  // Without waiting; nothing: it has not come.
  std::optional<bool> TakePoison() {
    std::lock_guard lock(mutex_);
    if (!std::exchange(poison_came_, false)) return std::nullopt;
    return poison_was_alone_;
  }
  int32_t num_taken() const { return num_taken_; }
  size_t num_running() {
    std::lock_guard lock(mutex_);
    return running_.size();
  }
  float last_weight() const { return last_weight_; }

 private:
  struct Running {
    Request request;
    std::shared_ptr<TokenStream> stream;  // shared with its reader
    bool is_evicted = false;
  };

  void TellPoison() {
    if (poison_id_.number == 0 || !on_delivered_) return;
    const RequestId id = std::exchange(poison_id_, {});
    if (poison_in_step_ && on_step_) on_step_({.undrawn = {&id, 1}});
    poison_came_ = true;
    changed_.notify_all();
  }

  void Loop() {
    while (!stopping_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::lock_guard lock(mutex_);
      TellPoison();
      for (auto it = running_.begin(); it != running_.end();) {
        Request& request = it->second.request;
        if (it->second.is_evicted || request.output_tokens.size() >= drawn_max_) {
          ++it;
          continue;
        }
        TokenEvent event{.token = TokenAt(request, request.output_tokens.size())};
        request.output_tokens.push_back(event.token);
        const auto num_output = static_cast<int32_t>(request.output_tokens.size());
        const bool is_last = num_output == request.sampling.tokens_max;
        if (is_last) event.finish_reason = FinishReason::kLength;
        if (is_last) event.usage.output_tokens = num_output;
        it->second.stream->Push(std::move(event));
        it = is_last ? running_.erase(it) : std::next(it);
      }
      if (on_delivered_) on_delivered_();
    }
  }

  std::mutex mutex_;
  std::function<void()> on_delivered_;
  std::function<void(const StepNews&)> on_step_;
  std::map<RequestId, Running> running_;
  std::condition_variable changed_;
  size_t drawn_max_ = std::numeric_limits<size_t>::max();
  int32_t poison_ = -1;
  RequestId poison_id_;  // came, and is not told yet
  bool poison_in_step_ = true;
  bool poison_came_ = false;
  bool poison_was_alone_ = false;
  Status refusal_;
  std::atomic<int32_t> num_taken_{0};
  std::atomic<float> last_weight_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class HashAdapters : public AdapterCatalog {
 public:
  void Add(const std::string& hash) {
    std::lock_guard lock(mutex_);
    infos_.push_back({.name = "adapter " + hash, .hash = hash});
  }
  std::vector<AdapterInfo> ListAfter(const std::string& name, size_t) const override {
    std::lock_guard lock(mutex_);
    return name.empty() ? infos_ : std::vector<AdapterInfo>();
  }
  Result<AdapterInfo> Find(const std::string&) const override { return NotFoundError("none"); }
  std::string NamesNear(const std::string&, const NameFilter&) const override { return ""; }
  AdapterState StateOf(const AdapterInfo&) const override { return AdapterState::kHost; }
  Result<AdapterInfo> Load(const AdapterLoad&) override { return NotFoundError("none"); }
  Status Unload(const std::string&, const std::string&) override { return NotFoundError("none"); }

 private:
  mutable std::mutex mutex_;
  std::vector<AdapterInfo> infos_;
};

struct TestRunner {
  void Serve(const std::string& arithmetic_id = "cpu") {
    RunnerServiceOptions options;
    options.port = port;
    options.base = {.name = "base", .text_hash = "t", .weights_hash = "w"};
    options.arithmetic_id = arithmetic_id;
    options.page_tokens = 16;
    options.batch_max = batch_max;
    options.startup_ms = startup_ms;
    service = RunnerService::Start(options, generator, catalog, [this] {
                return RunnerLoad{.pages_free = pages_free};
              }).value();
    port = static_cast<uint16_t>(service->port());
    generator.SetOnDelivered([this] { service->OnDelivered(); });
    generator.SetOnStep([this](const StepNews& news) { service->OnStep(news); });
  }
  void Die() {
    generator.SetOnDelivered({});
    generator.SetOnStep({});
    service.reset();
  }
  ~TestRunner() { Die(); }

  HashAdapters catalog;
  SteppingGenerator generator;
  uint16_t port = 0;
  std::atomic<int64_t> pages_free{0};
  int32_t batch_max = 0;  // it does not say
  int64_t startup_ms = 0;
  std::unique_ptr<RunnerService> service;
};

struct Client {
  Request request;
  std::shared_ptr<TokenStream> stream = std::make_shared<TokenStream>();
  std::vector<int32_t> tokens;
  TokenEvent last;

  bool done() const { return last.finish_reason != FinishReason::kNone; }
  void ReadOne() {
    if (done()) return;
    last = stream->Pop();
    if (last.token >= 0) tokens.push_back(last.token);
  }
  void ReadAll() {
    while (!done()) ReadOne();
  }
};

class RunnerSetTest : public testing::Test {
 protected:
  void Start(std::vector<TestRunner*> runners, int64_t runner_wait_ns = 30'000'000'000) {
    RunnerSetOptions options;
    for (const TestRunner* const runner : runners) {
      options.addresses.push_back("127.0.0.1:" + std::to_string(runner->port));
    }
    options.base = {.name = "base", .text_hash = "t"};
    options.limits = {.context_tokens_max = 10000, .vocab_size = kVocabSize, .requests_max = 50};
    // So that requests spread over runners, whatever they cost.
    options.placement.kind = PlacementKind::kMostIdle;
    options.runner_wait_ns = runner_wait_ns;
    options.addresses_come_later = runners.empty();
    options.metrics = &metrics_;
    set_.reset();  // the series of its runners have the names of the next one's
    set_ = RunnerSet::Start(options).value();
  }
  template <typename Holds>
  void WaitUntil(const Holds& holds) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!holds() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ASSERT_TRUE(holds());
  }
  void WaitUntilReady() {
    WaitUntil([this] { return set_->ready().ok(); });
  }
  static std::string AddressOf(const TestRunner& runner) {
    return "127.0.0.1:" + std::to_string(runner.port);
  }
  Client& Submit(int32_t tokens_max, const std::string& adapter_hash = "") {
    clients_.push_back(std::make_unique<Client>());
    Client& client = *clients_.back();
    client.request.id = ++last_id_;
    client.request.prompt_tokens = {static_cast<int32_t>(last_id_)};
    client.request.sampling.tokens_max = tokens_max;
    client.request.tenant = "t";
    client.request.UseAdapter(adapter_hash);
    const Status status = set_->Submit(client.request, client.stream);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return client;
  }
  // Requests of more tokens than 20 run until ExpectWholeAnswers.
  void Hold() {
    for (TestRunner* const runner : {&one_, &two_}) runner->generator.set_drawn_max(20);
  }
  void Release() {
    for (TestRunner* const runner : {&one_, &two_}) {
      runner->generator.set_drawn_max(std::numeric_limits<size_t>::max());
    }
  }
  // All of them, held, on two runners that are both up.
  void SubmitAcross(int32_t count, int32_t tokens_max) {
    Hold();
    WaitUntil([this] { return set_->hint().runners == 2; });
    while (one_.generator.num_taken() == 0 || two_.generator.num_taken() == 0) {
      Submit(tokens_max).ReadOne();
      ASSERT_LT(clients_.size(), 40u) << "one runner gets all";
    }
    while (static_cast<int32_t>(clients_.size()) < count) Submit(tokens_max);
    for (const auto& client : clients_) client->ReadOne();
  }
  // Requests run on both when the first evicts one; how many the second had taken by then.
  void EvictFromOne(int64_t pages_free_of_two, int32_t* taken_before) {
    two_.pages_free = pages_free_of_two;
    one_.Serve();
    two_.Serve();
    Start({&one_, &two_});
    WaitUntilReady();
    SubmitAcross(12, 300);
    *taken_before = two_.generator.num_taken();
    ASSERT_TRUE(one_.generator.EvictNewest());
  }
  void ExpectWholeAnswers() {
    Release();
    for (const auto& client : clients_) {
      client->ReadAll();
      EXPECT_EQ(client->last.status.ToString(), "OK");
      EXPECT_EQ(client->last.finish_reason, FinishReason::kLength);
      EXPECT_EQ(client->tokens, WholeAnswer(client->request));
    }
  }

  // The sum over all series of this name that have `label` among their labels.
  double Metric(const std::string& name, const std::string& label = "") const {
    double sum = 0.0;
    std::istringstream page(metrics_.Render());
    for (std::string line; std::getline(page, line);) {
      const size_t value = line.rfind(' ');
      if (line.substr(0, line.find_first_of("{ ")) != name) continue;
      if (line.substr(0, value).find(label) == std::string::npos) continue;
      sum += std::stod(line.substr(value));
    }
    return sum;
  }

  TestRunner one_, two_;
  Metrics metrics_;
  std::unique_ptr<RunnerSet> set_;
  std::vector<std::unique_ptr<Client>> clients_;
  uint64_t last_id_ = 0;
};

TEST_F(RunnerSetTest, StreamsGoOnWhenARunnerDies) {
  one_.Serve();
  two_.Serve();
  Start({&one_, &two_});
  WaitUntilReady();
  SubmitAcross(12, 300);
  one_.Die();
  ExpectWholeAnswers();
  const auto num_requests = static_cast<double>(clients_.size());
  const double num_moved = Metric("graft_migrations_total", "died");
  EXPECT_GT(num_moved, 0);
  EXPECT_EQ(Metric("graft_migrations_total"), num_moved);
  EXPECT_EQ(Metric("graft_placements_total", "\"base\""), num_requests + num_moved);
  EXPECT_EQ(Metric("graft_adapter_requests_total", "\"base\""), num_requests);
  EXPECT_EQ(Metric("graft_adapter_output_tokens_total"), 300 * num_requests);
  EXPECT_EQ(Metric("graft_time_to_first_token_seconds_count"), num_requests);
  EXPECT_EQ(Metric("graft_inter_token_seconds_count"), 299 * num_requests);
  EXPECT_EQ(Metric("graft_runner_up", AddressOf(one_)), 0);
  EXPECT_EQ(Metric("graft_runner_up", AddressOf(two_)), 1);
}

TEST_F(RunnerSetTest, CountsHowRequestsMeetTheirAdapters) {
  one_.catalog.Add("aa");
  one_.Serve();
  Start({&one_});
  WaitUntilReady();
  EXPECT_EQ(set_->NumHolders("aa"), 0);
  Submit(20, "aa").ReadAll();
  Submit(20, "aa").ReadAll();
  EXPECT_EQ(set_->NumHolders("aa"), 1);
  EXPECT_EQ(Metric("graft_placements_total", "\"cold\""), 1);
  EXPECT_EQ(Metric("graft_placements_total", "\"resident\""), 1);
  EXPECT_EQ(Metric("graft_adapter_requests_total", "\"adapter aa\""), 2);
}

TEST_F(RunnerSetTest, StreamsGoOnWhenARunnerDrains) {
  one_.Serve();
  two_.Serve();
  Start({&one_, &two_});
  WaitUntilReady();
  SubmitAcross(12, 300);
  const int32_t taken_before = two_.generator.num_taken();
  one_.service->BeginDrain();
  ExpectWholeAnswers();
  EXPECT_GT(two_.generator.num_taken(), taken_before);
  EXPECT_GT(Metric("graft_migrations_total", "drained"), 0);
  EXPECT_EQ(Metric("graft_runner_draining"), 1);
}

// All of its requests go on at the other one, which has more than it by then, and gets what comes.
TEST_F(RunnerSetTest, ARunnerThatMayGoIsEmptiedAndStaysIdle) {
  for (TestRunner* const runner : {&one_, &two_}) {
    runner->batch_max = 64;
    runner->pages_free = 100'000;
    runner->Serve();
  }
  Start({&one_, &two_});
  WaitUntilReady();
  SubmitAcross(12, 500);
  set_->SetSpare({AddressOf(two_)});
  WaitUntil(
      [this] { return one_.generator.num_running() == 12 && two_.generator.num_running() == 0; });
  const int32_t taken = two_.generator.num_taken();
  Submit(10).ReadAll();
  EXPECT_EQ(two_.generator.num_taken(), taken);
  set_->SetSpare({});
  Submit(10).ReadAll();
  EXPECT_EQ(two_.generator.num_taken(), taken + 1);
  ExpectWholeAnswers();
}

// The other one has three places for its four requests: emptying it would be half a thing.
TEST_F(RunnerSetTest, ARunnerWhoseRequestsHaveNoPlaceElsewhereKeepsThem) {
  for (TestRunner* const runner : {&one_, &two_}) {
    runner->batch_max = 7;
    runner->pages_free = 100'000;
    runner->Serve();
  }
  Start({&one_, &two_});
  WaitUntilReady();
  SubmitAcross(8, 300);
  WaitUntil(
      [this] { return one_.generator.num_running() == 4 && two_.generator.num_running() == 4; });
  set_->SetSpare({AddressOf(two_)});
  for (int i = 0; i < 4; ++i) Submit(10).ReadAll();
  EXPECT_EQ(two_.generator.num_running(), 4u);
  ExpectWholeAnswers();
}

TEST_F(RunnerSetTest, CountsARunnerFromWhenItIsUp) {
  two_.Serve();
  two_.Die();  // for its port
  one_.Serve();
  Start({&one_, &two_});
  WaitUntilReady();
  EXPECT_EQ(set_->hint().runners, 1);
  EXPECT_EQ(set_->hint().runners_wanted, 2);
}

TEST_F(RunnerSetTest, TellsHowManyRunnersThereShouldBe) {
  for (TestRunner* const runner : {&one_, &two_}) {
    runner->batch_max = 4;
    runner->Serve();
  }
  two_.Die();
  two_.startup_ms = 2500;
  Start({&one_, &two_});
  EXPECT_EQ(set_->hint().runners_wanted, 2) << "nobody is up yet, which is no reason for fewer";
  two_.Serve();
  WaitUntil([this] { return set_->hint().startup_seconds == 2.5; });
  EXPECT_EQ(set_->hint().runners, 2);
  for (int i = 0; i < 20; ++i) Submit(100'000);
  WaitUntil([this] { return set_->hint().runners_wanted >= 5; });
  const int32_t wanted = set_->hint().runners_wanted;
  set_->SetWaitingElsewhere(40);
  WaitUntil([&] { return set_->hint().runners_wanted > wanted; });
  EXPECT_TRUE(set_->hint().spare.empty());
  for (const auto& client : clients_) set_->Cancel(client->request.id);
  for (const auto& client : clients_) client->ReadAll();
  two_.Die();
  WaitUntil([this] { return set_->hint().runners == 1; });
  EXPECT_DOUBLE_EQ(set_->hint().startup_seconds, 2.5) << "it will take as long again";
}

TEST_F(RunnerSetTest, WhatHasDrawnWaitsForTheSameArithmetic) {
  two_.Serve("avx512");
  two_.Die();  // for its port
  one_.Serve("avx2");
  Start({&one_, &two_});
  WaitUntilReady();
  Hold();
  Client& client = Submit(300);
  client.ReadOne();
  one_.Die();
  two_.Serve("avx512");
  one_.Serve("avx2");
  ExpectWholeAnswers();
  EXPECT_EQ(two_.generator.num_taken(), 0);
}

TEST_F(RunnerSetTest, WhatNobodyCanGoOnWithEndsWithTheReason) {
  one_.Serve("avx2");
  two_.Serve("avx512");
  Start({&one_}, /*runner_wait_ns=*/200'000'000);
  WaitUntilReady();
  Hold();
  Client& client = Submit(5000);
  client.ReadOne();
  one_.Die();
  client.ReadAll();
  EXPECT_EQ(client.last.status.code(), StatusCode::kUnavailable);
  EXPECT_NE(client.last.status.message().find("avx2"), std::string::npos);
}

// Dies whenever it is given the poison; the others' streams go on.
TEST_F(RunnerSetTest, APoisonedRequestRunsAloneAndIsGivenUp) {
  one_.generator.set_poison(666);
  one_.Serve();
  Start({&one_});
  WaitUntilReady();
  Client& other = Submit(1000);
  other.ReadOne();
  Client poisoned;
  poisoned.request.id = 1000;
  poisoned.request.prompt_tokens = {666};
  ASSERT_TRUE(set_->Submit(poisoned.request, poisoned.stream).ok());
  std::vector<bool> was_alone;
  std::optional<TokenEvent> end;
  // A death that came before the frontend heard of the step does not count: there may be more.
  WaitUntil([&] {
    if (!end.has_value()) end = poisoned.stream->TryPop();
    if (end.has_value()) return true;
    const std::optional<bool> alone = one_.generator.TakePoison();
    if (!alone.has_value()) return false;
    was_alone.push_back(*alone);
    one_.Die();
    one_.Serve();
    return false;
  });
  EXPECT_EQ(end->status.code(), StatusCode::kInternal);
  EXPECT_NE(end->status.message().find("4 runners died in steps"), std::string::npos);
  ASSERT_GE(was_alone.size(), 4u);
  EXPECT_TRUE(was_alone.back());
  EXPECT_EQ(std::find(was_alone.begin(), was_alone.begin() + 3, true), was_alone.begin() + 3);
  ExpectWholeAnswers();
}

// The request was in the runner's line at each death, not in a step: it has caused none.
TEST_F(RunnerSetTest, ADeathOutsideItsStepsDoesNotCount) {
  one_.generator.set_poison(1, /*in_step=*/false);
  one_.Serve();
  Start({&one_});
  WaitUntilReady();
  Submit(20);
  for (int death = 0; death < 6; ++death) {
    EXPECT_FALSE(one_.generator.WaitForPoison()) << "after " << death << " deaths";
    one_.Die();
    one_.Serve();
  }
  EXPECT_FALSE(one_.generator.WaitForPoison());
  one_.generator.set_poison(-1);
  one_.Die();
  one_.Serve();
  ExpectWholeAnswers();
}

TEST_F(RunnerSetTest, WhoIsEvictedGoesWhereThereIsRoomForAllThatItMayDraw) {
  int32_t taken_before = 0;
  EvictFromOne(/*pages_free_of_two=*/1000, &taken_before);
  while (two_.generator.num_taken() == taken_before) std::this_thread::yield();
  ExpectWholeAnswers();
}

TEST_F(RunnerSetTest, WhoIsEvictedStaysInLineWhereNobodyHasRoom) {
  int32_t taken_before = 0;
  EvictFromOne(/*pages_free_of_two=*/10, &taken_before);
  std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kHeartbeatNs));
  one_.generator.MakeRoom();
  ExpectWholeAnswers();
  EXPECT_EQ(two_.generator.num_taken(), taken_before);
}

TEST_F(RunnerSetTest, WhoFindsNoRoomWaitsInTheFrontend) {
  one_.generator.set_refusal(ResourceExhaustedError("full"));
  one_.Serve();
  Start({&one_});
  WaitUntilReady();
  Submit(20);
  Client& gone = Submit(20);
  set_->Cancel(gone.request.id);
  gone.ReadAll();
  EXPECT_EQ(gone.last.finish_reason, FinishReason::kCancelled);
  clients_.pop_back();
  one_.generator.set_refusal(OkStatus());
  ExpectWholeAnswers();
}

TEST_F(RunnerSetTest, WhatIsRegisteredWaitsUntilARunnerHasIt) {
  one_.Serve();
  Start({&one_});
  WaitUntilReady();
  Request unknown;
  unknown.prompt_tokens = {1};
  unknown.UseAdapter("aa");
  EXPECT_EQ(set_->Submit(unknown, std::make_shared<TokenStream>()).code(), StatusCode::kNotFound);
  set_->SetRegistry(
      {.adapters = {{"aa", {.path = "/aa", .name = "aa"}}}, .tenant_weights = {{"t", 2.5f}}});
  Submit(20, "aa");
  one_.catalog.Add("aa");
  one_.service->OnAdaptersChanged();
  ExpectWholeAnswers();
  EXPECT_EQ(one_.generator.last_weight(), 2.5f);
}

TEST_F(RunnerSetTest, WhatNoRunnerLoadsEndsWithTheReason) {
  one_.Serve();
  Start({&one_}, /*runner_wait_ns=*/200'000'000);
  WaitUntilReady();
  set_->SetRegistry({.adapters = {{"aa", {.path = "/aa", .name = "aa"}}}});
  Client& client = Submit(20, "aa");
  client.ReadAll();
  EXPECT_EQ(client.last.status.code(), StatusCode::kUnavailable);
  EXPECT_NE(client.last.status.message().find("has loaded the adapter"), std::string::npos);
}

// Its adapter's name leads to another content by then.
TEST_F(RunnerSetTest, WhatRunsOnAFormerContentIsLookedForAndGoesOn) {
  one_.catalog.Add("aa");
  one_.Serve();
  two_.Serve();
  Start({&one_, &two_});
  WaitUntilReady();
  set_->SetRegistry({.adapters = {{"aa", {.path = "/aa", .name = "aa"}}}});
  Hold();
  Client& client = Submit(500, "aa");
  client.ReadOne();
  set_->SetRegistry({.adapters = {{"bb", {.path = "/bb", .name = "bb"}}}});
  EXPECT_TRUE(set_->FindMissing().empty());
  one_.Die();
  WaitUntil([this] { return !set_->FindMissing().empty(); });
  const std::vector<MissingContent> missing = set_->FindMissing();
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].hash, "aa");
  EXPECT_EQ(missing[0].path, "/aa");
  EXPECT_EQ(missing[0].runners, std::vector<std::string>{AddressOf(two_)});
  two_.catalog.Add("aa");
  two_.service->OnAdaptersChanged();
  ExpectWholeAnswers();
  EXPECT_TRUE(set_->FindMissing().empty());
}

// It was listed, and is gone when the request arrives. A request that has drawn nothing hears so.
TEST_F(RunnerSetTest, WhatHasDrawnIsNotEndedByARunnerThatCannotGoOn) {
  one_.catalog.Add("aa");
  two_.catalog.Add("aa");
  one_.Serve();
  two_.generator.set_refusal(NotFoundError("adapter content aa is unknown"));
  two_.Serve();
  Start({&two_});
  WaitUntilReady();
  Client& refused = Submit(20, "aa");
  refused.ReadAll();
  EXPECT_EQ(refused.last.status.code(), StatusCode::kNotFound);
  clients_.clear();
  Start({&two_, &one_});
  WaitUntilReady();
  // The first is refused by the one before it comes to the other, which draws for it.
  Hold();
  while (clients_.empty() || one_.generator.num_taken() == 0) {
    Client& client = Submit(500, "aa");
    client.ReadOne();
    if (client.done()) clients_.pop_back();  // it came to the other first
  }
  one_.Die();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  two_.generator.set_refusal(OkStatus());
  ExpectWholeAnswers();
}

TEST_F(RunnerSetTest, WhatRunsOnAContentThatIsNowhereEndsWithTheReason) {
  one_.catalog.Add("aa");
  one_.Serve();
  two_.Serve();
  Start({&one_, &two_}, /*runner_wait_ns=*/300'000'000);
  WaitUntilReady();
  set_->SetRegistry({.adapters = {{"aa", {.path = "/aa", .name = "aa"}}}});
  Hold();
  Client& client = Submit(5000, "aa");
  client.ReadOne();
  set_->SetRegistry({});
  one_.Die();
  client.ReadAll();
  EXPECT_EQ(client.last.status.code(), StatusCode::kUnavailable);
  EXPECT_NE(client.last.status.message().find("no runner has it that could go on"),
            std::string::npos)
      << client.last.status.message();
}

// A runner that starts anew on another port each time.
TEST_F(RunnerSetTest, WhoIsGoneIsForgotten) {
  Start({});
  for (int i = 0; i < 4; ++i) {
    one_.port = 0;
    one_.Serve();
    set_->SetRunners({AddressOf(one_)});
    WaitUntilReady();
    Submit(20);
    ExpectWholeAnswers();
    one_.Die();
    // Else the next round takes the dead runner for the one that it waits for.
    WaitUntil([this] { return !set_->ready().ok(); });
  }
  WaitUntil([this] { return set_->num_known() == 1; });
  set_->SetRunners({});
  WaitUntil([this] { return set_->num_known() == 0; });
}

TEST_F(RunnerSetTest, SaysWhyNoRunnerIsUp) {
  one_.Serve();
  RunnerSetOptions options;
  options.addresses = {"127.0.0.1:" + std::to_string(one_.port)};
  options.base = {.name = "other", .text_hash = "another"};
  set_ = RunnerSet::Start(options).value();
  const auto until = std::chrono::steady_clock::now() + kPatience;
  std::string why;
  while (why.find("another base model") == std::string::npos &&
         std::chrono::steady_clock::now() < until) {
    why = set_->ready().message();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_NE(why.find("start the runner with"), std::string::npos) << why;
  const Status refused = set_->Submit({.prompt_tokens = {1}}, std::make_shared<TokenStream>());
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace graft
