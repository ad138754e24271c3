// What an engine says of its steps: which requests are in them without having drawn, and which were
// evicted.
#include "engine/step_teller.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/engine_testing.h"

namespace graft {
namespace {

using Ids = std::vector<RequestId>;

struct HeardSteps {
  void ListenTo(Engine& engine) {
    engine.SetOnStep([this](const StepNews& news) {
      lists.emplace_back(news.undrawn.begin(), news.undrawn.end());
      evicted.insert(news.evicted.begin(), news.evicted.end());
    });
  }
  std::vector<Ids> lists;
  std::set<RequestId> evicted;
};

TEST(StepTellerTest, TellsChangesAlone) {
  EngineOptions options = TestOptions();
  options.scheduler.prefill_chunk_max = 4;
  EngineHarness harness(TestLimits(), options);
  HeardSteps heard;
  heard.ListenTo(harness.engine);
  auto first = harness.Submit(harness.MakeRequest(Prompt(10), 6));
  harness.Step();
  EXPECT_EQ(heard.lists, (std::vector<Ids>{{1}}));
  harness.Step();
  harness.Step();  // draws its first token
  EXPECT_EQ(heard.lists.size(), 1u);
  harness.Step();
  EXPECT_EQ(heard.lists, (std::vector<Ids>{{1}, {}}));
  auto second = harness.Submit(harness.MakeRequest(Prompt(3), 6));
  harness.RunAll();
  EXPECT_EQ(heard.lists, (std::vector<Ids>{{1}, {}, {2}, {}}));
  EXPECT_TRUE(heard.evicted.empty());
}

TEST(StepTellerTest, NewcomersAreToldBeforeTheirStepIsComputed) {
  EngineHarness harness;
  std::vector<int64_t> steps_before;
  harness.engine.SetOnStep(
      [&](const StepNews&) { steps_before.push_back(harness.executor.num_steps()); });
  auto client = harness.Submit(harness.MakeRequest(Prompt(5), 2));
  harness.RunAll();
  ASSERT_EQ(steps_before.size(), 2u);
  EXPECT_EQ(steps_before[0], 0);
}

TEST(StepTellerTest, TellsWhoGaveItsPagesAndWaits) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 12;
  EngineHarness harness(limits);
  HeardSteps heard;
  heard.ListenTo(harness.engine);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(harness.Submit(harness.MakeRequest(Prompt(6, 2 + i), 30)));
  }
  harness.RunAll();
  ASSERT_FALSE(heard.evicted.empty());
  EXPECT_EQ(heard.evicted.count(1), 0u) << "the oldest never makes room";
  EXPECT_EQ(heard.evicted.count(4), 1u);
  EXPECT_EQ(heard.lists.back(), Ids());
}

}  // namespace
}  // namespace graft
