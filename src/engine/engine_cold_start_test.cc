// What happens to requests without a resident adapter, and to those beside them, in every way of a
// cold start.
#include "engine/engine_testing.h"

namespace graft {
namespace {

class EngineColdStartTest : public EngineAdapterTest {
 protected:
  void MakeFor(ColdStart way, const BridgeRates& bridge_rates = {},
               const ExecutorLimits& limits = TestLimits()) {
    EngineOptions options = TestOptions();
    options.scheduler.cold_start = way;
    Make(limits, options, bridge_rates);
  }
  // There is one slot for two adapters, and loads are layer by layer.
  void MakeOneSlotForTwo() {
    ExecutorLimits limits = TestLimits();
    limits.adapters_max = 1;
    MakeFor(ColdStart::kLayerwise, {}, limits);
    for (const char* content : {"aa", "bb"}) harness_->AddAdapter(content);
  }
};

TEST_F(EngineColdStartTest, DecodeGoesOnWhileAnAdapterLoads) {
  Make();
  harness_->AddAdapter("aa");
  auto running = Submit("", 5, 40);
  harness_->Step();
  harness_->loader.set_delay(7);
  auto late = Submit("aa", 5, 5);
  const int64_t before = Now().steps;
  while (Now().adapters_resident == 0) harness_->Step();
  EXPECT_GE(Now().steps - before, 13) << "a fetch and a copy of seven looks each";
  running->Collect();
  EXPECT_EQ(static_cast<int64_t>(running->output().size()), Now().steps) << "not a step missed";
  harness_->RunAll();
  ExpectAnswered(*late, "aa");
  ExpectAnswered(*running, "");
}

TEST_F(EngineColdStartTest, BlockingStopsEverybody) {
  MakeFor(ColdStart::kBlocking);
  harness_->AddAdapter("aa");
  auto running = Submit("", 5, 40);
  harness_->Step();
  harness_->loader.set_delay(7);
  auto late = Submit("aa", 5, 5);
  const int64_t before = Now().steps;
  for (int look = 0; Now().adapters_resident == 0; ++look) {
    ASSERT_LT(look, 20) << "a fetch and a copy of seven looks each";
    EXPECT_EQ(Now().steps, before) << "nothing runs until it is there";
    EXPECT_TRUE(harness_->Step());
  }
  EXPECT_EQ(Now().steps, before + 1);
  EXPECT_EQ(harness_->executor.last_plan().sequences.size(), 2u) << "it is there in this step";
  EXPECT_EQ(Now().join_later_starts, 0);
  harness_->RunAll();
  ExpectAnswered(*late, "aa");
  ExpectAnswered(*running, "");
}

TEST_F(EngineColdStartTest, LayerwiseBeginsInTheStepThatOrdersTheCopy) {
  MakeFor(ColdStart::kLayerwise);
  harness_->AddAdapter("aa");
  harness_->AddAdapter("bb");
  Run("aa");
  auto running = Submit("", 5, 40);
  harness_->Step();
  harness_->loader.set_delay(7);
  auto late = Submit("bb", 5, 5);
  const auto runs = [&] { return harness_->executor.last_plan().sequences.size() == 2; };
  int num_looks = 0;
  do {
    harness_->Step();
    ++num_looks;
  } while (!runs());
  EXPECT_EQ(num_looks, 8) << "a fetch of seven looks";
  EXPECT_EQ(harness_->executor.num_gated_steps(), 2) << "the first one's too";
  EXPECT_EQ(Now().adapters_resident, 1);
  harness_->RunAll();
  EXPECT_EQ(harness_->executor.num_gated_steps(), 2);
  ExpectAnswered(*late, "bb");
  ExpectAnswered(*running, "");
}

TEST_F(EngineColdStartTest, WhatTheHostHoldsIsCopiedWithoutAFetch) {
  MakeFor(ColdStart::kLayerwise);
  harness_->AddAdapter("aa");
  Run("aa");
  harness_->adapters.Retire("aa");
  harness_->Step();
  ASSERT_EQ(harness_->adapters.num_contents(), 0) << "forgotten but for the host's memory";
  harness_->AddAdapter("aa");
  harness_->loader.set_delay(9);
  auto again = Submit("aa", 5, 3);
  harness_->Step();
  EXPECT_EQ(harness_->executor.last_plan().sequences.size(), 1u);
  EXPECT_EQ(harness_->executor.num_gated_steps(), 2);
  EXPECT_EQ(Now().adapter_fetches, 1);
  harness_->RunAll();
  ExpectAnswered(*again, "aa");
}

TEST_F(EngineColdStartTest, WhoComesBesideAStepIsLoadedForBesideIt) {
  MakeOneSlotForTwo();
  Run("aa");
  Run("bb");
  ASSERT_EQ(harness_->executor.num_gated_steps(), 2);
  auto running = Submit("", 5, 40);
  harness_->Step();
  std::unique_ptr<TestClient> late;
  harness_->executor.DoBesideNextStep([&] { late = Submit("aa", 5, 3); });
  harness_->Step();
  EXPECT_EQ(harness_->executor.last_plan().sequences.size(), 1u);
  EXPECT_EQ(harness_->loader.num_copies(), 3) << "ordered while it ran";
  harness_->Step();
  EXPECT_EQ(harness_->executor.last_plan().sequences.size(), 2u) << "no step later than cached";
  EXPECT_EQ(harness_->executor.num_gated_steps(), 2) << "the copy of a look has ended";
  harness_->RunAll();
  ExpectAnswered(*late, "aa");
  ExpectAnswered(*running, "");
}

// Beside a step nothing is taken that the step uses: no slot that it names and, at a turn's end, no
// running sequence.
TEST_F(EngineColdStartTest, WhatAStepUsesIsNotTakenBesideIt) {
  MakeOneSlotForTwo();
  Run("bb");
  auto running = Submit("aa", 5, 50);
  while (Now().requests_running == 0) harness_->Step();
  auto waiting = Submit("bb", 5, 3);
  std::vector<std::unique_ptr<TestClient>> late;
  for (int64_t step = 0; step < 2 * kTurnSteps; ++step) {
    harness_->executor.DoBesideNextStep([&] { late.push_back(Submit("bb", 5, 3)); });
    harness_->Step();
  }
  EXPECT_EQ(harness_->loader.num_copies(), 2) << "aa is older, so it stays";
  harness_->RunAll();
  EXPECT_EQ(Now().preemptions, 0);
  ExpectAnswered(*running, "aa");
  ExpectAnswered(*waiting, "bb");
  for (auto& client : late) ExpectAnswered(*client, "bb");
}

TEST_F(EngineColdStartTest, BlockingLoadsNothingBesideAStep) {
  MakeFor(ColdStart::kBlocking);
  harness_->AddAdapter("aa");
  auto running = Submit("", 5, 40);
  std::unique_ptr<TestClient> late;
  harness_->executor.DoBesideNextStep([&] { late = Submit("aa", 5, 3); });
  harness_->Step();
  EXPECT_EQ(harness_->loader.num_fetches() + harness_->loader.num_copies(), 0);
  harness_->RunAll();
  ExpectAnswered(*late, "aa");
}

TEST_F(EngineColdStartTest, AutoLetsAShortCopyBeJoinedAndALongOneBeWaitedFor) {
  MakeFor(ColdStart::kAuto);
  for (const char* content : {"first", "short", "long"}) harness_->AddAdapter(content);
  harness_->loader.SetRows("long", {{2 * kRowAlignment, 30}});  // ten times the bytes
  Run("first");
  EXPECT_EQ(Now().layerwise_starts, 1) << "nobody else would wait";
  auto running = Submit("", 5, 40);
  harness_->Step();
  auto short_copy = Submit("short", 5, 3);
  for (int step = 0; step < 8; ++step) harness_->Step();
  ExpectAnswered(*short_copy, "short");
  EXPECT_EQ(Now().layerwise_starts, 2);
  EXPECT_EQ(Now().join_later_starts, 0);
  EXPECT_EQ(harness_->executor.num_gated_steps(), 2);
  harness_->loader.set_delay(3);
  auto long_copy = Submit("long", 5, 3);
  for (int step = 0; step < 12; ++step) harness_->Step();
  ExpectAnswered(*long_copy, "long");
  EXPECT_EQ(Now().layerwise_starts, 2);
  EXPECT_EQ(Now().join_later_starts, 1);
  EXPECT_EQ(harness_->executor.num_gated_steps(), 2);
  EXPECT_EQ(Now().steps_with_arrivals, 2);
  harness_->RunAll();
  ExpectAnswered(*running, "");
}

// Copies take 500 ns and steps about as long. No step waits for an adapter of ten times the bytes,
// unless there is a CPU assist that computes a layer in no time.
TEST_F(EngineColdStartTest, AutoTakesTheCpuWhereItIsFasterThanTheCopy) {
  for (const double row_ns : {1e-6, 1.0}) {
    SCOPED_TRACE(row_ns);
    const bool is_fast = row_ns < 1e-3;
    MakeFor(ColdStart::kAuto, {{{8, row_ns, row_ns}}, 2});
    for (const char* content : {"first", "long"}) harness_->AddAdapter(content);
    harness_->loader.SetRows("long", {{2 * kRowAlignment, 30}});
    Run("first");
    EXPECT_EQ(Now().layerwise_starts, 1) << "nothing was measured yet";
    auto running = Submit("", 5, 40);
    harness_->Step();
    harness_->loader.set_delay(3);
    auto late = Submit("long", 5, 3);
    harness_->RunAll();
    EXPECT_EQ(Now().cpu_assist_starts, is_fast ? 1 : 0);
    EXPECT_EQ(Now().join_later_starts, is_fast ? 0 : 1);
    EXPECT_EQ(Now().layerwise_starts, 1);
    EXPECT_EQ(harness_->executor.num_bridged_steps() > 0, is_fast);
    EXPECT_EQ(harness_->executor.num_gated_steps(), 1);
    const std::string counted = "graft_cold_starts_total{way=\"cpu-assist\"} ";
    EXPECT_NE(harness_->metrics.Render().find(counted + (is_fast ? "1" : "0")), std::string::npos);
    ExpectAnswered(*late, "long");
    ExpectAnswered(*running, "");
  }
}

// By the rates the assist costs nothing. In fact it costs as much as a hundred steps.
TEST_F(EngineColdStartTest, AutoBelievesWhatAssistedStepsTook) {
  MakeFor(ColdStart::kAuto, {{{8, 1e-2, 1e-2}}, 2});
  harness_->executor.set_bridge_ns(100'000);
  harness_->AddAdapter("first");
  Run("first");
  auto running = Submit("", 5, 40);
  harness_->Step();
  for (int i = 0; i < 3; ++i) {
    const std::string content = "long" + std::to_string(i);
    harness_->loader.SetRows(content, {{2 * kRowAlignment, 30}});
    harness_->AddAdapter(content);
    auto late = Submit(content, 5, 3);
    for (int step = 0; step < 9; ++step) harness_->Step();
    ExpectAnswered(*late, content);
    EXPECT_EQ(Now().cpu_assist_starts, 1) << "once, and not again";
  }
  harness_->RunAll();
  ExpectAnswered(*running, "");
}

TEST_F(EngineColdStartTest, CpuAssistIsAskedForInEveryStepWithArrivals) {
  MakeFor(ColdStart::kCpuAssist, {{{8, 1e9, 1e9}}, 2});
  harness_->AddAdapter("aa");
  harness_->loader.set_delay(3);
  Run("aa");
  EXPECT_EQ(Now().cpu_assist_starts, 1);
  EXPECT_EQ(harness_->executor.num_bridged_steps(), Now().steps_with_arrivals);
  EXPECT_EQ(harness_->executor.num_gated_steps(), 0);
}

// The request that runs on it ends before the copy does. The adapter stays until its copy has
// ended.
TEST_F(EngineColdStartTest, WhatArrivesIsNotEvicted) {
  MakeOneSlotForTwo();
  Run("aa");
  Run("bb");
  harness_->loader.set_delay(9);
  auto cancelled = Submit("aa", 5, 30);
  harness_->Step();
  EXPECT_EQ(harness_->executor.last_plan().sequences.size(), 1u) << "it is in the host's memory";
  harness_->engine.Cancel(cancelled->request.id);
  auto other = Submit("bb", 5, 3);
  for (int step = 0; step < 5; ++step) harness_->Step();
  EXPECT_EQ(Now().adapter_evictions, 2) << "of aa and of bb, each for the other";
  harness_->RunAll();
  EXPECT_EQ(Now().adapter_evictions, 3);
  ExpectAnswered(*other, "bb");
}

}  // namespace
}  // namespace graft
