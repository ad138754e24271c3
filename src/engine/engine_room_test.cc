// Room that tenants share: which tenant's cached prefixes and adapters go, and which come.
#include <gtest/gtest.h>

#include <string>

#include "engine/engine_testing.h"

namespace graft {
namespace {

class EngineRoomTest : public testing::Test {
 protected:
  void Make(const ExecutorLimits& limits, const EngineOptions& options = TestOptions()) {
    harness_ = std::make_unique<EngineHarness>(limits, options);
  }
  std::unique_ptr<TestClient> Submit(const std::string& tenant, std::vector<int32_t> prompt,
                                     const std::string& adapter = "", float weight = 1.0f) {
    Request request = harness_->MakeRequest(std::move(prompt), 2);
    request.tenant = tenant;
    request.tenant_weight = weight;
    request.UseAdapter(adapter);
    return harness_->Submit(std::move(request));
  }
  // Runs one request to its end; returns how many tokens of its prompt were found.
  int32_t Run(const std::string& tenant, std::vector<int32_t> prompt,
              const std::string& adapter = "", float weight = 1.0f) {
    auto client = Submit(tenant, std::move(prompt), adapter, weight);
    harness_->RunAll();
    client->Collect();
    EXPECT_TRUE(client->done());
    EXPECT_EQ(client->output(), harness_->Reference(client->request));
    return client->last().usage.cached_tokens;
  }
  // One prompt after the other, none of which begins as another does.
  void FloodWithPrompts(const std::string& tenant, int count) {
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(Run(tenant, OfNumber(num_prompts_++)), 0);
    }
  }
  // A prompt of 41 tokens, ten pages and one.
  static std::vector<int32_t> OfNumber(int32_t number) {
    std::vector<int32_t> prompt = Prompt(41);
    prompt[0] = 2 + number % 48;
    prompt[1] = 2 + number / 48;
    return prompt;
  }
  void FloodWithAdapters(const std::string& tenant, int count) {
    for (int i = 0; i < count; ++i) {
      const std::string adapter = "cold " + std::to_string(num_adapters_++);
      harness_->AddAdapter(adapter);
      Run(tenant, Prompt(5), adapter);
    }
  }
  bool IsResident(const std::string& adapter) const {
    return harness_->adapters.PlaceOf(adapter) == AdapterPlace::kResident;
  }

  std::unique_ptr<EngineHarness> harness_;
  int32_t num_prompts_ = 100;
  int32_t num_adapters_ = 0;
};

TEST_F(EngineRoomTest, AFloodOfPromptsEvictsItsOwnPrefixes) {
  Make(TestLimits());  // 64 pages
  Run("other", OfNumber(0));
  Run("other", OfNumber(1));
  FloodWithPrompts("flood", 20);
  EXPECT_EQ(Run("other", OfNumber(0)), 40);
  EXPECT_EQ(Run("other", OfNumber(1)), 40);
  // The flood has the rest, its newest.
  EXPECT_EQ(Run("flood", OfNumber(num_prompts_ - 1)), 40);
  EXPECT_EQ(Run("flood", OfNumber(num_prompts_ - 3)), 40);
  EXPECT_EQ(Run("flood", OfNumber(100)), 0);
}

TEST_F(EngineRoomTest, ATenantAloneHasAllRoomAndKeepsWhatItUsedLast) {
  Make(TestLimits());
  FloodWithPrompts("one", 8);
  for (int32_t back = 1; back <= 5; ++back) {
    EXPECT_EQ(Run("one", OfNumber(num_prompts_ - back)), 40);
  }
}

TEST_F(EngineRoomTest, PrefixesAreKeptByWeight) {
  Make(TestLimits());
  for (int32_t i = 0; i < 4; ++i) Run("heavy", OfNumber(i), "", 4.0f);  // 40 of the 64 pages
  FloodWithPrompts("flood", 20);
  for (int32_t i = 3; i >= 0; --i) EXPECT_EQ(Run("heavy", OfNumber(i), "", 4.0f), 40);
  // With the same weight it would have kept half.
  for (int32_t i = 4; i < 8; ++i) Run("heavy", OfNumber(i), "", 1.0f);
  FloodWithPrompts("flood", 20);
  EXPECT_EQ(Run("heavy", OfNumber(7), "", 1.0f), 40);
  EXPECT_LT(Run("heavy", OfNumber(4), "", 1.0f), 20);
}

TEST_F(EngineRoomTest, WhoWantedNothingForLongLosesItsShare) {
  Make(TestLimits());
  Run("other", OfNumber(0));
  Run("third", OfNumber(1));
  harness_->clock.AdvanceNs(301'000'000'000);
  Run("third", OfNumber(1));
  FloodWithPrompts("flood", 8);
  EXPECT_EQ(Run("third", OfNumber(1)), 40);
  EXPECT_EQ(Run("other", OfNumber(0)), 0);
}

TEST_F(EngineRoomTest, AFloodOfColdAdaptersEvictsItsOwnForSlots) {
  Make(TestLimits());  // four slots
  harness_->AddAdapter("mine");
  Run("other", OfNumber(0), "mine");  // it has pages of KV, too, and still holds less
  FloodWithAdapters("flood", 10);
  EXPECT_TRUE(IsResident("mine"));
  EXPECT_TRUE(IsResident("cold 9"));
  EXPECT_FALSE(IsResident("cold 0"));
  // The tenant that ran on it last holds it: it goes by the flood's last use once that is later.
  Run("flood", Prompt(5), "mine");
  FloodWithAdapters("flood", 4);
  EXPECT_FALSE(IsResident("mine"));
}

TEST_F(EngineRoomTest, AFloodOfColdAdaptersEvictsItsOwnForPages) {
  ExecutorLimits limits = TestLimits();
  limits.adapters_max = 20;
  limits.num_pages = 24;
  limits.page_bytes = 1024;
  Make(limits);
  const auto add = [this](const std::string& content) {
    harness_->loader.SetRows(content, {{kRowAlignment, 60}});
    harness_->AddAdapter(content);
  };
  add("mine");
  Run("other", Prompt(5), "mine");
  for (int i = 0; i < 12; ++i) {
    const std::string content = "large " + std::to_string(i);
    add(content);
    Run("flood", Prompt(5), content);
  }
  EXPECT_TRUE(IsResident("mine"));
  EXPECT_FALSE(IsResident("large 0"));
  EXPECT_TRUE(IsResident("large 11"));
}

// A tenant that fetches nothing may begin a fetch beside a flood that has all places.
TEST_F(EngineRoomTest, AFloodOfFetchesKeepsNobodysFromBeginning) {
  constexpr int kDelay = 30;
  ExecutorLimits limits = TestLimits();
  limits.adapters_max = 16;
  Make(limits);
  harness_->loader.set_delay(kDelay);
  std::vector<std::unique_ptr<TestClient>> flood;
  for (int i = 0; i < 40; ++i) {
    const std::string adapter = "cold " + std::to_string(i);
    harness_->AddAdapter(adapter);
    flood.push_back(Submit("flood", Prompt(5), adapter));
  }
  for (int step = 0; step < 5; ++step) harness_->Step();
  ASSERT_EQ(harness_->engine.Snapshot().adapter_fetches, 4);
  harness_->AddAdapter("mine");
  auto client = Submit("other", Prompt(5), "mine");
  harness_->Step();
  EXPECT_EQ(harness_->engine.Snapshot().adapter_fetches, 5);
  int steps = 1;
  for (; client->events.empty() && steps < 1000; ++steps) {
    harness_->Step();
    client->Collect();
  }
  EXPECT_LE(steps, 2 * kDelay + 3) << "one fetch and one copy";
  harness_->RunAll();
}

// Requests before a prompt in line wait for room, and their adapters are there: not for ever.
TEST_F(EngineRoomTest, APromptGoesOnThoughAdaptersThatOthersWaitForHoldTheLastPages) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 9;
  limits.context_tokens_max = 32;
  EngineOptions options = TestOptions();
  options.scheduler.prefix_cache = false;
  options.scheduler.prefill_chunk_max = limits.page_tokens;  // a page in a step
  for (const bool by_priority : {false, true}) {
    Make(limits, options);
    harness_->loader.SetRows("idle", {{kRowAlignment, 30}});  // three pages
    harness_->AddAdapter("idle");
    Run("other", Prompt(5), "idle");
    auto begun = Submit("flood", Prompt(28));  // seven pages
    harness_->Step();
    Request next = harness_->MakeRequest(Prompt(9), 2);
    next.tenant = by_priority ? "flood" : "other";
    next.priority = by_priority ? 1 : 0;
    next.UseAdapter("idle");
    auto waiting = harness_->Submit(std::move(next));
    harness_->RunAll();
    EXPECT_EQ(harness_->engine.Snapshot().adapter_evictions, 1);
    EXPECT_EQ(harness_->engine.Snapshot().preemptions, 0);
    for (TestClient* const client : {begun.get(), waiting.get()}) {
      client->Collect();
      ASSERT_TRUE(client->done());
      EXPECT_EQ(client->output(), harness_->Reference(client->request));
    }
  }
}

}  // namespace
}  // namespace graft
