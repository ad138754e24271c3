// A tenant that floods the engine, and one that asks for little: what the second notices.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "engine/engine_testing.h"

namespace graft {
namespace {

class EngineFairnessTest : public testing::Test {
 protected:
  void Make(const ExecutorLimits& limits, EngineOptions options = TestOptions()) {
    options.scheduler.prefix_cache = false;
    harness_ = std::make_unique<EngineHarness>(limits, options);
  }
  TestClient& Submit(const std::string& tenant, int32_t prompt_tokens, int32_t tokens_max,
                     const std::string& adapter = "") {
    return Submit(tenant, prompt_tokens, tokens_max, adapter, [](Request&) {});
  }
  template <typename Change>
  TestClient& Submit(const std::string& tenant, int32_t prompt_tokens, int32_t tokens_max,
                     const std::string& adapter, Change change) {
    Request request = harness_->MakeRequest(Prompt(prompt_tokens), tokens_max);
    request.tenant = tenant;
    request.UseAdapter(adapter);
    change(request);
    clients_.push_back(harness_->Submit(std::move(request)));
    return *clients_.back();
  }
  void Steps(int count) {
    for (int i = 0; i < count; ++i) harness_->Step();
    for (auto& client : clients_) client->Collect();
  }
  // Steps until the client has a token.
  int StepsToFirstToken(TestClient& client) {
    for (int step = 1; step < 1000; ++step) {
      Steps(1);
      if (!client.events.empty()) return step;
    }
    return 1000;
  }
  size_t NumTokens(const std::string& tenant) const {
    size_t count = 0;
    for (const auto& client : clients_) {
      if (client->request.tenant == tenant) count += client->output().size();
    }
    return count;
  }

  std::unique_ptr<EngineHarness> harness_;
  std::vector<std::unique_ptr<TestClient>> clients_;
};

ExecutorLimits Limits() {
  ExecutorLimits limits = TestLimits();
  limits.context_tokens_max = 2000;
  limits.num_pages = 500;
  return limits;
}

TEST_F(EngineFairnessTest, AFloodThatHasAllPlacesGivesOneUp) {
  Make(Limits());
  for (int i = 0; i < 30; ++i) Submit("flood", 10, 100);
  Steps(20);
  EXPECT_EQ(harness_->engine.Snapshot().requests_running, 8);
  for (int i = 0; i < 5; ++i) {
    TestClient& client = Submit("other", 10, 3);
    EXPECT_EQ(StepsToFirstToken(client), 1);
    Steps(3);
    EXPECT_TRUE(client.done());
  }
  // The sequences that made place go on with the tokens that they would have had anyway.
  harness_->RunAll();
  for (auto& client : clients_) {
    client->Collect();
    ASSERT_TRUE(client->done());
    Request alone = client->request;
    EXPECT_EQ(client->output(), harness_->Reference(alone));
  }
}

// Steps take virtual time by their rows. Requests of "other" come one at a time, each at any moment
// of a step, beside a flood that never ends.
class EngineFairnessTimesTest : public EngineFairnessTest {
 protected:
  struct Cost {
    int64_t step_ns = 0;
    int64_t row_ns = 0;
  };
  struct Flood {
    int32_t num_in_flight = 0;
    int32_t prompt_tokens = 0;
    int32_t tokens_max = 0;
    bool is_wide = false;  // many more places than a prompt of "other" has rows
  };
  struct Times {
    std::vector<int64_t> first_token_ns;  // ascending
    int64_t longest_step_ns = 0;

    int64_t p99() const { return first_token_ns[first_token_ns.size() * 99 / 100]; }
  };

  Times Measure(const Cost& cost, size_t count, const Flood& flood) {
    MakeLarge(flood.is_wide);
    if (cost.row_ns > cost.step_ns) harness_->executor.set_row_ns(cost.row_ns);
    const int32_t prompt_tokens = flood.is_wide ? 32 : 96;
    Times times;
    Random random(3);
    int64_t now_ns = 0, arrival_ns = 0;
    std::unique_ptr<TestClient> asked;
    while (flood.is_wide && flood.num_in_flight > 0 &&
           harness_->engine.Snapshot().requests_running < 200) {
      KeepUp(flood);
      harness_->engine.Step();
    }
    while (times.first_token_ns.size() < count) {
      KeepUp(flood);
      if (asked == nullptr) asked = Ask("other", prompt_tokens, 4);
      const int64_t rows_before = harness_->engine.Snapshot().rows;
      harness_->engine.Step();
      const int64_t num_rows = harness_->engine.Snapshot().rows - rows_before;
      const int64_t step_ns = cost.step_ns + cost.row_ns * num_rows;
      times.longest_step_ns = std::max(times.longest_step_ns, step_ns);
      now_ns += step_ns;
      const bool had_none = asked->events.empty();
      asked->Collect();
      if (had_none && !asked->events.empty()) times.first_token_ns.push_back(now_ns - arrival_ns);
      if (!asked->done()) continue;
      asked.reset();
      // The next one comes while another step of the flood's runs, and is seen after it.
      KeepUp(flood);
      const int64_t before = harness_->engine.Snapshot().rows;
      if (flood.num_in_flight > 0) harness_->engine.Step();
      const int64_t ns =
          flood.num_in_flight == 0
              ? 0
              : cost.step_ns + cost.row_ns * (harness_->engine.Snapshot().rows - before);
      arrival_ns = now_ns + static_cast<int64_t>(random.Below(static_cast<uint64_t>(ns + 1)));
      now_ns += ns;
    }
    std::sort(times.first_token_ns.begin(), times.first_token_ns.end());
    return times;
  }
  void ExpectBound(const Cost& cost, const Flood& flood) {
    const int64_t alone_ns = Measure(cost, 5, {.is_wide = flood.is_wide}).p99();
    const Times flooded = Measure(cost, 100, flood);
    EXPECT_LE(flooded.p99(), 2 * alone_ns + flooded.longest_step_ns)
        << "alone " << alone_ns << ", the longest step " << flooded.longest_step_ns;
  }

 private:
  void MakeLarge(bool is_wide) {
    ExecutorLimits limits = Limits();
    limits.sequences_max = is_wide ? 200 : 16;
    limits.step_tokens_max = 256;
    limits.num_pages = limits.sequences_max * 2000 / limits.page_tokens;
    flood_.clear();
    Make(limits);
  }
  std::unique_ptr<TestClient> Ask(const std::string& tenant, int32_t prompt_tokens,
                                  int32_t tokens_max) {
    Request request = harness_->MakeRequest(Prompt(prompt_tokens), tokens_max);
    request.tenant = tenant;
    return harness_->Submit(std::move(request));
  }
  void KeepUp(const Flood& flood) {
    for (auto& client : flood_) client->Collect();
    std::erase_if(flood_, [](const auto& client) { return client->done(); });
    while (static_cast<int32_t>(flood_.size()) < flood.num_in_flight) {
      flood_.push_back(Ask("flood", flood.prompt_tokens, flood.tokens_max));
    }
  }

  std::vector<std::unique_ptr<TestClient>> flood_;
};

// What rows take is all that a step takes, as on a CPU; or reading the weights is, as on a GPU.
constexpr int64_t kStepUnitNs = 1'000'000;

TEST_F(EngineFairnessTimesTest, AFirstTokenWaitsForTheStepThatRunsOnACpu) {
  ExpectBound({.step_ns = kStepUnitNs, .row_ns = 10 * kStepUnitNs}, {40, 1000, 20});
  ExpectBound({.step_ns = kStepUnitNs, .row_ns = 10 * kStepUnitNs}, {200, 20, 200});
  ExpectBound({.step_ns = kStepUnitNs, .row_ns = 10 * kStepUnitNs}, {300, 20, 500, true});
}

TEST_F(EngineFairnessTimesTest, AFirstTokenWaitsForTheStepThatRunsOnAGpu) {
  ExpectBound({.step_ns = 10 * kStepUnitNs, .row_ns = kStepUnitNs / 50}, {40, 1000, 20});
  ExpectBound({.step_ns = 10 * kStepUnitNs, .row_ns = kStepUnitNs / 50}, {200, 20, 200});
}

TEST_F(EngineFairnessTest, ALongPromptKeepsOthersForOneChunk) {
  Make(Limits());
  Submit("flood", 1900, 3);
  Steps(3);
  TestClient& client = Submit("other", 20, 3);
  EXPECT_EQ(StepsToFirstToken(client), 1);
  // It is not made to wait for as many rows as the step could hold.
  const int64_t rows = harness_->engine.Snapshot().step_prompt_rows;
  EXPECT_EQ(rows, 20 + 12);  // 32 fit; as many as the other has
}

TEST_F(EngineFairnessTest, LongPromptsOfTwoTenantsTakeTurns) {
  Make(Limits());
  TestClient& first = Submit("a", 960, 1);
  TestClient& second = Submit("b", 480, 1);
  EXPECT_EQ(StepsToFirstToken(second), 30);  // 15 steps each
  EXPECT_EQ(StepsToFirstToken(first), 15);
}

TEST_F(EngineFairnessTest, WhoWantsHalfOfTheTokensGetsIt) {
  Make(Limits());
  for (int i = 0; i < 50; ++i) Submit("flood", 10, 50);
  for (int i = 0; i < 50; ++i) Submit("other", 40, 10);
  Steps(200);
  // What is counted is what was computed, so the tenant of longer prompts has fewer tokens drawn.
  const double flood = 10.0 / 50 + 2, other = 40.0 / 10 + 2;
  const double ratio = NumTokens("other") * other / (NumTokens("flood") * flood);
  EXPECT_NEAR(ratio, 1.0, 0.1);
}

TEST_F(EngineFairnessTest, SharesGoByWeight) {
  Make(Limits());
  for (int i = 0; i < 80; ++i) {
    Submit("light", 10, 20);
    Submit("heavy", 10, 20, "", [](Request& request) { request.tenant_weight = 3.0f; });
  }
  Steps(150);
  EXPECT_NEAR(static_cast<double>(NumTokens("heavy")) / static_cast<double>(NumTokens("light")),
              3.0, 0.3);
}

TEST_F(EngineFairnessTest, AFloodThatHoldsAllPagesGivesSomeUp) {
  ExecutorLimits limits = Limits();
  limits.num_pages = 64;  // 256 tokens
  Make(limits);
  for (int i = 0; i < 20; ++i) Submit("flood", 60, 100);
  for (int step = 0; harness_->engine.Snapshot().pages_free >= 10; ++step) {
    ASSERT_LT(step, 100);
    Steps(1);
  }
  TestClient& client = Submit("other", 50, 3);
  EXPECT_LE(StepsToFirstToken(client), 2);
  harness_->RunAll();
  for (auto& one : clients_) {
    one->Collect();
    EXPECT_EQ(one->output(), harness_->Reference(one->request));
  }
}

TEST_F(EngineFairnessTest, AFloodOfAdaptersWithoutRoomHidesNobody) {
  ExecutorLimits limits = Limits();
  limits.adapters_max = 2;
  EngineOptions options = TestOptions();
  options.scheduler.waiting_looked_at = 64;
  options.scheduler.turn_ns = 1'000'000;
  Make(limits, options);
  for (int i = 0; i < 200; ++i) {
    const std::string adapter = "cold " + std::to_string(i);
    harness_->AddAdapter(adapter);
    Submit("flood", 5, 300, adapter);
  }
  Steps(20);
  TestClient& base = Submit("other", 10, 3);
  EXPECT_LE(StepsToFirstToken(base), 1);
  // Nor does it keep the other's adapter from its room.
  harness_->AddAdapter("mine");
  TestClient& mine = Submit("other", 10, 3, "mine");
  EXPECT_LE(StepsToFirstToken(mine), 10);
}

TEST_F(EngineFairnessTest, PriorityGoesFirstWithinAKey) {
  ExecutorLimits limits = Limits();
  limits.sequences_max = 1;
  Make(limits);
  Submit("a", 10, 20);
  Steps(1);
  TestClient& later = Submit("a", 10, 20);
  TestClient& urgent = Submit("a", 10, 20, "", [](Request& request) { request.priority = 1; });
  StepsToFirstToken(urgent);
  EXPECT_TRUE(later.events.empty());
  EXPECT_FALSE(urgent.events.empty());
}

TEST_F(EngineFairnessTest, AFullQueueHasAPlaceForWhoHasFew) {
  EngineOptions options = TestOptions();
  options.requests_max = 20;
  Make(Limits(), options);
  for (int i = 0; i < 20; ++i) Submit("flood", 10, 50);
  Steps(1);
  const auto refused = [&](const std::string& tenant) {
    Request request = harness_->MakeRequest(Prompt(5), 3);
    request.tenant = tenant;
    return harness_->engine.Submit(std::move(request), std::make_shared<TokenStream>()).code();
  };
  EXPECT_EQ(refused("flood"), StatusCode::kResourceExhausted);
  TestClient& client = Submit("other", 10, 3);
  Steps(2);
  EXPECT_FALSE(client.events.empty());
  // The flood's newest request was given up, and says so.
  const TestClient& newest = *clients_[19];
  ASSERT_TRUE(newest.done());
  EXPECT_EQ(newest.last().status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(newest.last().status.message().find("try again later"), std::string::npos);
  harness_->RunAll();
  for (size_t i = 0; i < 19; ++i) {
    clients_[i]->Collect();
    EXPECT_EQ(clients_[i]->output().size(), 50u);
  }
  // All places are free again.
  for (int i = 0; i < 20; ++i) Submit("flood", 10, 50);
  EXPECT_EQ(refused("flood"), StatusCode::kResourceExhausted);
}

TEST_F(EngineFairnessTest, WhoGetsNoPlaceHearsWhenToComeBack) {
  constexpr int64_t kSecond = 1'000'000'000;
  EngineOptions options = TestOptions();
  options.requests_max = 20;
  Make(Limits(), options);
  // Twenty answers end every minute.
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 20; ++i) Submit("flood", 4, 1);
    harness_->clock.AdvanceNs(60 * kSecond);
    harness_->RunAll();
  }
  for (int i = 0; i < 20; ++i) Submit("flood", 10, 50);
  Steps(1);
  const int32_t first_s = harness_->engine.RetryAfterS("flood", 1.0);
  EXPECT_NEAR(first_s, 3, 2);
  EXPECT_GT(harness_->engine.RetryAfterS("flood", 1.0), first_s) << "behind the first";
  // A place that another tenant takes has not become free.
  for (int i = 0; i < 5; ++i) Submit("other", 10, 3);
  EXPECT_GT(harness_->engine.RetryAfterS("flood", 1.0), first_s);
}

}  // namespace
}  // namespace graft
