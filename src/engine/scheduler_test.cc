// Counts what the scheduler looks at. Work that grows with everything that exists must not be done
// for every single request.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include "engine/scheduler_testing.h"

namespace graft {
namespace {

class SchedulerTest : public SchedulerFixture {
 protected:
  void Make(const ExecutorLimits& limits, int32_t adapters_known = 0) {
    limits_ = limits;
    MakeScheduler(limits,
                  {.step_ns_max = step_ns_max_, .cold_start = ColdStart::kJoinLater, .turn_ns = 0},
                  adapters_known);
  }
  RequestId Add(std::vector<int32_t> prompt, int32_t tokens_max, const std::string& adapter = "") {
    auto sequence = NewSequence(std::move(prompt), tokens_max, adapter);
    sequence->runs_alone = std::exchange(next_runs_alone_, false);
    scheduler_->Add(std::move(sequence));
    return last_id_;
  }
  // Runs a step. Returns false if there was nothing to run.
  bool Step() {
    const StepPlan& plan = scheduler_->Plan();
    EXPECT_TRUE(scheduler_->TakeFailed().empty());
    num_planned_ = plan.sequences.size();
    if (plan.sequences.empty()) return false;
    scheduler_->Commit(plan, executor_->Run(plan));
    scheduler_->TakeFinished();
    EXPECT_EQ(scheduler_->CheckIntegrity().ToString(), "OK");
    return true;
  }
  void RunAll() {
    for (int step = 0; !scheduler_->empty(); ++step) {
      ASSERT_LT(step, 10000) << "no progress";
      Step();
    }
  }

  ExecutorLimits limits_;
  bool next_runs_alone_ = false;
  int64_t step_ns_max_ = 0;
  size_t num_planned_ = 0;  // in the last step
};

TEST_F(SchedulerTest, WhatRunsAloneSharesNoStepUntilItDraws) {
  ExecutorLimits limits = TestLimits();
  limits.step_tokens_max = 8;
  Make(limits);
  Add(Prompt(4), 6);
  Add(Prompt(4, 12), 6);
  Step();
  next_runs_alone_ = true;
  Add(Prompt(14, 20), 4);  // takes three steps alone
  std::vector<size_t> sequences_of_step;
  while (!scheduler_->empty()) {
    ASSERT_LT(sequences_of_step.size(), 100u) << "no progress";
    Step();
    sequences_of_step.push_back(num_planned_);
  }
  EXPECT_EQ(sequences_of_step, (std::vector<size_t>{1, 1, 1, 3, 3, 3, 2, 2}));
}

// A long prompt beside a sequence that decodes: a millisecond a step and 10 us a row, so that a
// bound of 3 ms leaves 200 rows. Alone it has all the rows of a step.
TEST_F(SchedulerTest, PromptsLeaveDecodersTheirTimePerToken) {
  ExecutorLimits limits = TestLimits();
  limits.step_tokens_max = 1000;
  limits.context_tokens_max = 4000;
  limits.page_tokens = 16;
  limits.num_pages = 2000;
  step_ns_max_ = 3'000'000;
  Make(limits);
  const auto rows_of_next_step = [&] {
    const StepPlan& plan = scheduler_->Plan();
    const auto num_rows = static_cast<int64_t>(plan.tokens.size());
    StepResult result = executor_->Run(plan);
    result.times.total_ns = 1'000'000 + 10'000 * num_rows;
    scheduler_->Commit(plan, result);
    scheduler_->TakeFinished();
    return num_rows;
  };
  Add(Prompt(5), 100);
  EXPECT_EQ(rows_of_next_step(), 5);
  EXPECT_EQ(rows_of_next_step(), 1);
  Add(Prompt(3000, 7), 2);
  EXPECT_EQ(rows_of_next_step(), 1 + PromptBudget::kRowsFirst) << "nothing is known";
  for (int step = 0; step < 12; ++step) {
    const int64_t num_rows = rows_of_next_step();
    EXPECT_GT(num_rows, 190);
    EXPECT_LE(num_rows, 201);
  }
  RunAll();
  Add(Prompt(2500, 11), 2);
  EXPECT_EQ(rows_of_next_step(), 1000) << "nobody waits for it";
  RunAll();
}

// The request's prefix is cached, but there is no room for the rest. It is looked up once, and
// again only after a page of the prefix has gone; not in every step.
TEST_F(SchedulerTest, WhoWaitsForPagesIsNotLookedUpInEveryStep) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 16;
  limits.page_tokens = 16;
  limits.context_tokens_max = 256;
  limits.step_tokens_max = 256;
  Make(limits);
  Add(Prompt(160), 1);
  RunAll();
  Add(Prompt(81, 30), 40);  // uses up to six pages in fifteen steps
  Step();
  Add(Prompt(160), 1);
  const int64_t before = scheduler_->stats().prefix_pages_searched;
  for (int step = 0; step < 12; ++step) Step();
  ASSERT_EQ(scheduler_->num_waiting(), 1);
  EXPECT_EQ(scheduler_->stats().prefix_pages_searched - before, 10) << "nine, and none after them";
  // The running request takes the cached pages, one after the other.
  RunAll();
  EXPECT_GT(scheduler_->stats().prefix_pages_searched - before, 10);
  EXPECT_GT(scheduler_->stats().prefix_hit_tokens, 0);
}

TEST_F(SchedulerTest, ManyCancelsLookAtEachSequenceOnce) {
  ExecutorLimits limits = TestLimits();
  Make(limits);
  constexpr int32_t kRequests = 2000;
  std::vector<RequestId> ids;
  for (int32_t i = 0; i < kRequests; ++i) ids.push_back(Add(Prompt(5), 30));
  Step();
  ASSERT_EQ(scheduler_->num_running(), 7);
  std::vector<RequestId> every_other;
  for (size_t i = 0; i < ids.size(); i += 2) every_other.push_back(ids[i]);
  every_other.push_back(12345678);
  EXPECT_EQ(scheduler_->Remove(every_other).size(), size_t{kRequests} / 2);
  EXPECT_EQ(scheduler_->CheckIntegrity().ToString(), "OK");
  EXPECT_EQ(scheduler_->stats().removal_visits, kRequests);
  const Sequences::List rest = scheduler_->RemoveAll();
  ASSERT_EQ(rest.size(), size_t{kRequests} / 2);
  for (size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i]->id, ids[2 * i + 1]) << "oldest first";
  EXPECT_EQ(scheduler_->stats().removal_visits, kRequests + kRequests / 2);
  EXPECT_EQ(scheduler_->CheckIntegrity().ToString(), "OK");
  EXPECT_TRUE(scheduler_->empty());
}

// KV pages are evicted one by one beside two hundred idle adapters. No adapter is compared with the
// others for any of them.
TEST_F(SchedulerTest, EvictionLooksAtTheOldestIdleAdapterAlone) {
  constexpr int32_t kAdapters = 200;
  ExecutorLimits limits = TestLimits();
  limits.adapters_max = kAdapters;
  limits.num_pages = 500;
  limits.page_bytes = kRowAlignment;
  Make(limits, kAdapters);
  for (int32_t i = 0; i < kAdapters; ++i) {
    Add(Prompt(5), 1, "c" + std::to_string(i));
    RunAll();
  }
  ASSERT_EQ(scheduler_->adapters().num_resident(), kAdapters);
  EXPECT_LE(scheduler_->adapters().num_idle_visits(), kAdapters) << "as they became idle";
  const int64_t before = scheduler_->adapters().num_idle_visits();
  for (int32_t i = 0; i < 20; ++i) {
    Add(Prompt(40, 2 + i), 20);  // different pages each time
    RunAll();
  }
  EXPECT_GT(scheduler_->adapters().stats().evictions, 0);
  EXPECT_EQ(scheduler_->adapters().num_idle_visits(), before);
  // The adapter used last is evicted last.
  EXPECT_EQ(scheduler_->adapters().OldestIdle(PagePool::kOneHolder),
            scheduler_->adapters().stats().evictions);
}

}  // namespace
}  // namespace graft
