// What a plan says of each request that it looks at: why it begins, waits, fails or gives way.
#include "engine/admission_walk.h"

#include <gtest/gtest.h>

#include "engine/scheduler_testing.h"

namespace graft {
namespace {

using Why = Verdict::Why;
using Whys = std::vector<Why>;

class AdmissionWalkTest : public SchedulerFixture {
 protected:
  void Make(const ExecutorLimits& limits, int32_t num_adapters = 0,
            ColdStart cold_start = ColdStart::kJoinLater) {
    MakeScheduler(
        limits,
        {.fetches_max = 2, .cold_start = cold_start, .turn_ns = kTurnNs, .prefix_cache = false},
        num_adapters);
  }
  RequestId Add(int32_t prompt_tokens, int32_t tokens_max, const std::string& adapter = "",
                const std::string& tenant = "") {
    auto sequence = NewSequence(Prompt(prompt_tokens), tokens_max, adapter);
    sequence->tenant = tenant;
    scheduler_->Add(std::move(sequence));
    return last_id_;
  }
  // Plans a step and runs it. Returns what became of the requests, in their order.
  Whys Step() {
    const StepPlan& plan = scheduler_->Plan();
    Whys whys;
    for (const Verdict& verdict : scheduler_->verdicts()) whys.push_back(verdict.why);
    if (!plan.sequences.empty()) scheduler_->Commit(plan, executor_->Run(plan));
    scheduler_->TakeFinished();
    EXPECT_EQ(scheduler_->CheckIntegrity().ToString(), "OK");
    return whys;
  }
  // Steps until no request waits for an adapter on its way; returns the last step's.
  Whys StepUntilLoaded() {
    for (int step = 0; step < 100; ++step) {
      Whys whys = Step();
      if (std::count(whys.begin(), whys.end(), Why::kAdapterComing) == 0) return whys;
    }
    ADD_FAILURE() << "an adapter never comes";
    return {};
  }

  static constexpr int64_t kTurnNs = 1000;
};

TEST_F(AdmissionWalkTest, PromptsShareTheRowsOfAStep) {
  Make(TestLimits());
  Add(20, 2);
  Add(20, 2);
  const RequestId last = Add(5, 2);
  EXPECT_EQ(Step(), (Whys{Why::kBegins, Why::kBegins, Why::kNoRows})) << "32 rows";
  EXPECT_EQ(scheduler_->verdicts().back().request, last);
  EXPECT_EQ(Step(), (Whys{Why::kGoesOn, Why::kBegins}));
  EXPECT_EQ(Step(), Whys()) << "all decode";
}

TEST_F(AdmissionWalkTest, ARequestBeyondThePlacesHasNone) {
  ExecutorLimits limits = TestLimits();
  limits.sequences_max = 1;
  Make(limits);
  Add(5, 2);
  Add(5, 2);
  EXPECT_EQ(Step(), (Whys{Why::kBegins, Why::kNoPlace}));
  EXPECT_EQ(Step(), Whys()) << "no request can begin, and none needs an adapter";
  EXPECT_EQ(Step(), Whys{Why::kBegins});
}

TEST_F(AdmissionWalkTest, NoneOfATenantOvertakesARequestThatLacksPages) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 8;  // of four tokens
  Make(limits);
  Add(20, 4);
  Add(16, 2);
  Add(2, 1);
  EXPECT_EQ(Step(), (Whys{Why::kBegins, Why::kNoPages, Why::kBehind}));
}

// A request of a's for 16 tokens lacks pages. With its weight of 2 they count as eight.
TEST(ShortageTest, OtherTenantsOvertakeUntilTheyWereServedAsMuch) {
  FairLine line;
  std::vector<const Sequence*> requests;
  for (const char* const tenant : {"a", "b"}) {
    auto sequence = std::make_unique<Sequence>();
    sequence->tenant = tenant;
    sequence->tenant_weight = *tenant == 'a' ? 2.0f : 1.0f;
    sequence->tokens = Prompt(16);
    requests.push_back(sequence.get());
    line.Add(std::move(sequence));
  }
  Shortage pages(line, &TenantLine::lacks_pages);
  line.BeginPlan();
  pages.Begin();
  TenantLine& a = line.TenantOf(*requests[0]);
  TenantLine& b = line.TenantOf(*requests[1]);
  EXPECT_FALSE(pages.is_known() || pages.KeepsFrom(a) || pages.KeepsFrom(b));
  pages.Note(a, *requests[0]);
  EXPECT_TRUE(pages.is_known());
  EXPECT_TRUE(pages.KeepsFrom(a)) << "from its further requests";
  line.AddRows(*requests[1], 8);
  EXPECT_FALSE(pages.KeepsFrom(b));
  line.AddRows(*requests[1], 1);
  EXPECT_TRUE(pages.KeepsFrom(b));
  line.BeginPlan();
  pages.Begin();
  EXPECT_FALSE(pages.KeepsFrom(line.TenantOf(*requests[0])));
  EXPECT_FALSE(pages.KeepsFrom(line.TenantOf(*requests[1])));
  for (auto& sequence : line.TakeIf([](const Sequence&) { return true; })) line.Leave(*sequence);
}

TEST_F(AdmissionWalkTest, ARequestWaitsForItsAdapter) {
  ExecutorLimits limits = TestLimits();
  limits.adapters_max = 1;
  Make(limits, 2);
  Add(5, 30, "c0");
  EXPECT_EQ(Step(), Whys{Why::kAdapterComing});
  EXPECT_EQ(StepUntilLoaded(), Whys{Why::kBegins});
  Add(5, 30, "c1");
  EXPECT_EQ(Step(), Whys{Why::kAdapterComing});
  EXPECT_EQ(StepUntilLoaded(), Whys{Why::kNoAdapterRoom}) << "c0 runs in the one slot";
  // For the length of a turn younger requests run ahead.
  Add(5, 30, "c0");
  EXPECT_EQ(Step(), (Whys{Why::kNoAdapterRoom, Why::kBegins}));
  Add(5, 30, "c0");
  clock_.AdvanceNs(kTurnNs);
  EXPECT_EQ(Step(), (Whys{Why::kNoAdapterRoom, Why::kTurnEnds}));
  EXPECT_EQ(scheduler_->stats().turns, 1);
  EXPECT_EQ(Step(), (Whys{Why::kNoAdapterRoom, Why::kBegins})) << "the next turn";
}

TEST_F(AdmissionWalkTest, FetchesBeyondTheirPlacesAreQueued) {
  Make(TestLimits(), 3);
  for (const char* const adapter : {"c0", "c1", "c2"}) Add(5, 2, adapter);
  EXPECT_EQ(Step(), (Whys{Why::kAdapterComing, Why::kAdapterComing, Why::kAdapterQueued}));
}

TEST_F(AdmissionWalkTest, ARequestBeginsWhileItsAdapterArrives) {
  Make(TestLimits(), 1, ColdStart::kLayerwise);
  Add(5, 2, "c0");
  EXPECT_EQ(Step(), Whys{Why::kAdapterComing}) << "as far as the host";
  EXPECT_EQ(StepUntilLoaded(), Whys{Why::kBeginsEarly});
  EXPECT_EQ(scheduler_->stats().layerwise_starts, 1);
}

TEST_F(AdmissionWalkTest, WhereLoadsBlockNothingOvertakes) {
  Make(TestLimits(), 1, ColdStart::kBlocking);
  Add(5, 2, "c0");
  Add(5, 2);
  EXPECT_EQ(Step(), Whys{Why::kAdapterComing});
  EXPECT_EQ(StepUntilLoaded(), (Whys{Why::kBegins, Why::kBegins}));
}

TEST_F(AdmissionWalkTest, AdaptersAreAskedForAheadOfTimeUpToALimit) {
  constexpr int32_t kMore = 4;
  ExecutorLimits limits = TestLimits();
  limits.sequences_max = 1;
  Make(limits, WantAdapters::kPrefetchesMax + kMore);
  Add(60, 2);  // takes two steps
  Step();
  for (int32_t i = 0; i < WantAdapters::kPrefetchesMax + kMore; ++i) {
    Add(5, 2, "c" + std::to_string(i));
  }
  const Whys whys = Step();
  ASSERT_EQ(whys.size(), size_t{WantAdapters::kPrefetchesMax + 2});
  EXPECT_EQ(whys.front(), Why::kGoesOn);
  EXPECT_EQ(whys[1], Why::kAdapterComing);
  EXPECT_EQ(whys.back(), Why::kNotAskedFor);
}

TEST_F(AdmissionWalkTest, WhatDoesNotFitBesideItsAdapterFails) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 8;
  limits.page_bytes = kRowAlignment;
  Make(limits, 1);
  loader_->SetRows("c0", {{kRowAlignment, 3}});
  Add(24, 2, "c0");
  EXPECT_EQ(Step(), Whys{Why::kAdapterComing});
  EXPECT_EQ(StepUntilLoaded(), Whys{Why::kFails});
  const Sequences::List failed = scheduler_->TakeFailed();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0]->status.code(), StatusCode::kInvalidArgument);
}

// A step takes as long as its rows. The prompt of b has two, so two of a's sequences go on.
TEST_F(AdmissionWalkTest, ManySequencesThatDecodeGiveWayToAFirstToken) {
  Make(TestLimits());
  executor_->set_row_ns(1'000'000);
  for (int i = 0; i < 7; ++i) Add(3, 30, "", "a");
  for (int step = 0; step < 3; ++step) Step();
  Add(2, 2, "", "b");
  const Whys whys = Step();
  ASSERT_EQ(whys.size(), 6u);
  EXPECT_EQ(whys.front(), Why::kBegins);
  EXPECT_EQ(std::count(whys.begin(), whys.end(), Why::kGivesWay), 5);
  EXPECT_EQ(scheduler_->verdicts().back().request, RequestId(7)) << "the newest ones";
  EXPECT_EQ(Step(), Whys());
}

}  // namespace
}  // namespace graft
