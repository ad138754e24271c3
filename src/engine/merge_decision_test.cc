// The decision by itself, and then in an engine: merged steps, which requests end them, and a slot
// that gets another adapter.
#include "engine/merge_decision.h"

#include "engine/engine_testing.h"

namespace graft {
namespace {

using Answer = MergeDecision::Answer;

std::string Text(const Answer& answer) {
  return answer.merges ? "merges" : answer.merged ? "merged" : "base";
}

TEST(MergeDecisionTest, MergesAfterStepsInARowAndAlone) {
  MergeDecision decision(2);
  bool alone = true;
  const auto next = [&](const char* hash) {
    return Text(decision.Decide(hash, [&] { return alone; }));
  };
  EXPECT_EQ(next("aa"), "base");
  EXPECT_EQ(next("bb"), "base");
  EXPECT_EQ(next("aa"), "base");
  EXPECT_EQ(next("aa"), "base");
  alone = false;
  EXPECT_EQ(next("aa"), "base");
  alone = true;
  EXPECT_EQ(next("aa"), "merges");
  EXPECT_EQ(next("aa"), "merged");
  EXPECT_EQ(next(""), "base") << "the same step, no wait";
  alone = false;
  EXPECT_EQ(next("aa"), "merged") << "others that only wait do not matter any more";
  alone = true;
  EXPECT_EQ(next("bb"), "base");
  EXPECT_EQ(next("bb"), "base");
  EXPECT_EQ(next("aa"), "merged") << "bb did not have its steps in a row";
  EXPECT_EQ(next("bb"), "base");
  EXPECT_EQ(next("bb"), "base");
  EXPECT_EQ(next("bb"), "merges");
  EXPECT_EQ(next("aa"), "base");
}

TEST(MergeDecisionTest, OffIsOff) {
  MergeDecision decision(0);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Text(decision.Decide("aa", [] { return true; })), "base");
  }
}

class EngineMergeTest : public testing::Test {
 protected:
  void Make(int32_t after_steps, const ExecutorLimits& limits = TestLimits()) {
    EngineOptions options = TestOptions();
    options.merge_after_steps = after_steps;
    harness_ = std::make_unique<EngineHarness>(limits, options);
    for (const char* content : {"aa", "bb"}) harness_->AddAdapter(content);
  }
  std::unique_ptr<TestClient> Submit(const std::string& adapter, int32_t tokens_max) {
    Request request = harness_->MakeRequest(Prompt(5), tokens_max);
    request.UseAdapter(adapter);
    return harness_->Submit(std::move(request));
  }
  void RunUntilMerged() {
    for (int i = 0; plan().merged_slot == kNoAdapter; ++i) {
      ASSERT_LT(i, 100) << "nothing is merged";
      harness_->Step();
    }
  }
  void ExpectAnswered(TestClient& client) {
    client.Collect();
    ASSERT_TRUE(client.done());
    EXPECT_EQ(client.output(), harness_->Reference(client.request));
  }
  const StepPlan& plan() const { return harness_->executor.last_plan(); }
  EngineSnapshot Now() const { return harness_->engine.Snapshot(); }

  std::unique_ptr<EngineHarness> harness_;
};

TEST_F(EngineMergeTest, OneAdapterIsMergedUntilAnotherRowComes) {
  Make(3);
  auto first = Submit("aa", 40);
  RunUntilMerged();
  EXPECT_EQ(Now().steps, 4);
  EXPECT_TRUE(plan().merges);
  harness_->Step();
  EXPECT_FALSE(plan().merges);
  EXPECT_NE(plan().merged_slot, kNoAdapter);
  auto same = Submit("aa", 10);
  harness_->Step();
  EXPECT_EQ(plan().sequences.size(), 2u);
  EXPECT_NE(plan().merged_slot, kNoAdapter);
  auto base = Submit("", 3);
  harness_->Step();
  EXPECT_EQ(plan().sequences.size(), 3u) << "nobody waits for unmerging";
  EXPECT_EQ(plan().merged_slot, kNoAdapter);
  harness_->RunAll();
  for (TestClient* client : {first.get(), same.get(), base.get()}) ExpectAnswered(*client);
  EXPECT_EQ(Now().merges, 1);
  EXPECT_GT(Now().merged_steps, 20);
}

TEST_F(EngineMergeTest, WhileOthersWaitNothingIsMerged) {
  Make(3);
  harness_->loader.set_delay(10);
  auto first = Submit("aa", 50);
  while (Now().steps == 0) harness_->Step();
  auto late = Submit("bb", 2);
  for (int i = 0; i < 10; ++i) {
    harness_->Step();
    EXPECT_EQ(plan().merged_slot, kNoAdapter) << "step " << i;
  }
  harness_->RunAll();
  ExpectAnswered(*first);
  ExpectAnswered(*late);
  EXPECT_EQ(Now().merges, 1);
}

// A merge belongs to a content. It must not be used for the slot's next adapter, and the content
// must be found again in its next slot.
TEST_F(EngineMergeTest, ASlotThatChangesHands) {
  ExecutorLimits limits = TestLimits();
  limits.adapters_max = 1;
  Make(2, limits);
  for (const char* content : {"aa", "bb", "aa", "aa", "bb"}) {
    auto client = Submit(content, 12);
    harness_->RunAll();
    ExpectAnswered(*client);
  }
  EXPECT_EQ(Now().merges, 4);
  EXPECT_GE(Now().adapter_evictions, 3);
}

TEST_F(EngineMergeTest, OffIsTheDefault) {
  Make(TestOptions().merge_after_steps);
  auto client = Submit("aa", 50);
  harness_->RunAll();
  ExpectAnswered(*client);
  EXPECT_EQ(Now().merges, 0);
  EXPECT_EQ(Now().merged_steps, 0);
}

}  // namespace
}  // namespace graft
