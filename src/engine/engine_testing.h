// What the engine's tests share: an engine over a FakeExecutor and a FakeLoader with adapters to
// publish and retire, and clients that collect their events. One thread.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/fake_executor.h"
#include "engine/fake_loader.h"

namespace graft {

inline constexpr int32_t kEosToken = 0;

inline ExecutorLimits TestLimits() {
  return {.sequences_max = 8,
          .step_tokens_max = 32,
          .context_tokens_max = 64,
          .num_pages = 64,
          .page_bytes = 640,
          .page_tokens = 4,
          .vocab_size = 50,
          .adapters_max = 4};
}

inline EngineOptions TestOptions() {
  EngineOptions options;
  options.scheduler.eos_token_ids = {kEosToken};
  options.scheduler.cold_start = ColdStart::kJoinLater;  // makes it plain what is loaded when
  options.scheduler.prefix_hash_key = 1;
  return options;
}

// A request, and the events that came back for it.
struct TestClient {
  Request request;
  std::shared_ptr<TokenStream> stream = std::make_shared<TokenStream>();
  std::vector<TokenEvent> events;

  void Collect() {
    while (auto event = stream->TryPop()) {
      EXPECT_TRUE(!done()) << "an event after the last";
      events.push_back(std::move(*event));
    }
  }
  bool done() const {
    return !events.empty() && events.back().finish_reason != FinishReason::kNone;
  }
  const TokenEvent& last() const { return events.back(); }
  std::vector<int32_t> output() const {
    std::vector<int32_t> tokens;
    for (const TokenEvent& event : events) {
      if (event.token >= 0) tokens.push_back(event.token);
    }
    return tokens;
  }
};

class EngineHarness {
 public:
  explicit EngineHarness(const ExecutorLimits& limits = TestLimits(),
                         const EngineOptions& options = TestOptions(),
                         const BridgeRates& bridge_rates = {})
      : executor(limits, bridge_rates),
        loader(executor),
        adapters(1000),
        engine(executor, adapters, loader, clock, metrics, options) {
    loader.set_on_read([this](const std::string& key, const AdapterFacts& facts) {
      adapters.Identify(key, facts.hash);
    });
  }

  // Makes a content known under its hash, in a folder of that name. Returns false if it is known
  // already.
  bool AddAdapter(const std::string& hash) {
    return adapters.Publish({.path = hash, .hash = hash, .key = hash}).ok();
  }
  // Adds a folder that was never read. Requests ask for it by the key that this returns.
  std::string AddUnread(const std::string& folder, const std::string& hash) {
    loader.SetFolder(folder, hash);
    const std::string key = "unread " + folder;
    EXPECT_TRUE(adapters.Publish({.path = folder, .hash = "", .key = key}).ok());
    return key;
  }

  Request MakeRequest(std::vector<int32_t> prompt, int32_t tokens_max) {
    Request request;
    request.id = ++last_id;
    request.prompt_tokens = std::move(prompt);
    request.sampling.tokens_max = tokens_max;
    request.sampling.seed = SeedOfTenant("", static_cast<uint32_t>(last_id));
    request.sampling.ignore_eos = true;
    return request;
  }

  // Submits a request that must be accepted.
  std::unique_ptr<TestClient> Submit(Request request) {
    auto client = std::make_unique<TestClient>();
    client->request = request;
    const Status status = engine.Submit(std::move(request), client->stream);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return client;
  }

  bool Step() {
    clock.AdvanceNs(1000);
    const bool ran = engine.Step();
    const Status status = engine.CheckIntegrity();
    EXPECT_TRUE(status.ok()) << status.ToString();
    return ran;
  }

  // Steps until nothing is left. A request that never ends fails the test.
  void RunAll() {
    for (int step = 0; Step(); ++step) ASSERT_LT(step, 100000) << "no progress";
  }

  std::vector<int32_t> Reference(const Request& request) const {
    const int32_t eos[] = {kEosToken};
    return ReferenceOutput(request, eos, executor.limits(),
                           loader.NumVirtualTokens(request.adapter_hash()));
  }

  FakeExecutor executor;
  FakeLoader loader;
  ContentTable adapters;
  ManualClock clock;
  Metrics metrics;
  uint64_t last_id = 0;
  Engine engine;
};

// Tokens 2, 3, ...: neither EOS nor the poison token.
inline std::vector<int32_t> Prompt(int32_t num_tokens, int32_t first = 2) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < num_tokens; ++i) tokens.push_back(2 + (first - 2 + i) % 48);
  return tokens;
}

// A fixture for engines with adapters that come and go.
class EngineAdapterTest : public testing::Test {
 protected:
  void Make(const ExecutorLimits& limits = TestLimits(), EngineOptions options = TestOptions(),
            const BridgeRates& bridge_rates = {}) {
    options.scheduler.turn_ns = kTurnSteps * kStepNs;
    harness_ = std::make_unique<EngineHarness>(limits, options, bridge_rates);
  }
  std::unique_ptr<TestClient> Submit(const std::string& adapter, int32_t prompt_tokens,
                                     int32_t tokens_max) {
    Request request = harness_->MakeRequest(Prompt(prompt_tokens), tokens_max);
    request.UseAdapter(adapter);
    return harness_->Submit(std::move(request));
  }
  void AddOfThreePages(const std::string& content) {
    harness_->loader.SetRows(content, {{kRowAlignment, 30}});
    harness_->AddAdapter(content);
  }
  // Submits one request for each of these contents, one after the other.
  std::vector<std::unique_ptr<TestClient>> SubmitAll(const std::vector<std::string>& contents,
                                                     int32_t tokens_max) {
    std::vector<std::unique_ptr<TestClient>> clients;
    for (const std::string& content : contents) clients.push_back(Submit(content, 5, tokens_max));
    return clients;
  }
  void ExpectAnswered(TestClient& client, const std::string& content) {
    client.Collect();
    ASSERT_TRUE(client.done());
    EXPECT_EQ(client.last().status.ToString(), "OK");
    Request asked = client.request;
    asked.UseAdapter(content);
    EXPECT_EQ(client.output(), harness_->Reference(asked));
  }
  void Run(const std::string& content) {
    auto client = Submit(content, 5, 3);
    harness_->RunAll();
    ExpectAnswered(*client, content);
  }
  EngineSnapshot Now() const { return harness_->engine.Snapshot(); }

  static constexpr int64_t kStepNs = 1000;  // EngineHarness steps by this
  static constexpr int64_t kTurnSteps = 10;
  std::unique_ptr<EngineHarness> harness_;
};

}  // namespace graft
