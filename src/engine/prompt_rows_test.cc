// The plans of a scheduler under the goal throughput. Steps take what the tests say.
#include "engine/prompt_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/scheduler_testing.h"

namespace graft {
namespace prompt_rows_test {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kRowNs = 20'000;

class PromptRowsTest : public SchedulerFixture {
 protected:
  struct Step {
    int64_t rows = 0;
    int64_t decodes = 0;
    int64_t ns = 0;
  };

  void Make(Goal goal, int32_t step_tokens_max, int64_t step_ns_max) {
    ExecutorLimits limits = TestLimits();
    limits.sequences_max = 64;
    limits.step_tokens_max = step_tokens_max;
    limits.context_tokens_max = 12'000;
    limits.page_tokens = 64;
    limits.num_pages = 600;
    MakeScheduler(limits, {.goal = goal, .step_ns_max = step_ns_max, .prefix_cache = false}, 0);
    now_ns_ = ends_ns_ = num_ends_ = 0;
  }
  void Add(const std::string& tenant, int32_t prompt_tokens, int32_t tokens_max) {
    auto sequence =
        NewSequence(std::vector<int32_t>(static_cast<size_t>(prompt_tokens), 7), tokens_max, "");
    sequence->tenant = tenant;
    tenant_of_[sequence->id] = tenant;
    scheduler_->Add(std::move(sequence));
  }
  // A step takes 4 ms, 4 ms with prompts, and 20 us a row, as much again for each 3,000 tokens that
  // a row attends to.
  Step Run() {
    const StepPlan& plan = scheduler_->Plan();
    EXPECT_FALSE(plan.sequences.empty());
    Step step{.rows = static_cast<int64_t>(plan.tokens.size()), .ns = 4 * kMs};
    for (const PlannedSequence& one : plan.sequences) {
      step.decodes += one.num_tokens == 1 ? 1 : 0;
      step.ns += kRowNs * one.num_tokens * (3000 + one.position_begin) / 3000;
    }
    if (step.decodes < std::ssize(plan.sequences)) step.ns += 4 * kMs;
    StepResult result = executor_->Run(plan);
    result.times.total_ns = step.ns;
    scheduler_->Commit(plan, result);
    now_ns_ += step.ns;
    for (const auto& ended : scheduler_->TakeFinished()) {
      ends_ns_ += now_ns_;
      ++num_ends_;
      ++ended_of_[tenant_of_[ended->id]];
    }
    return step;
  }
  void RunAll() {
    while (!scheduler_->empty()) Run();
    EXPECT_EQ(scheduler_->CheckIntegrity().ToString(), "OK");
  }
  // Teaches it sizes up to 4,096 rows, and short answers.
  void Warm() {
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 60; ++i) Add("warm", 200, 12);
      RunAll();
    }
    now_ns_ = ends_ns_ = num_ends_ = 0;
  }
  // In milliseconds, of 60 prompts with answers of 12 tokens.
  double MeanEndOfBurst(Goal goal, int32_t step_tokens_max, int64_t step_ns_max) {
    Make(goal, step_tokens_max, step_ns_max);
    Warm();
    for (int i = 0; i < 60; ++i) Add("", 200, 12);
    RunAll();
    EXPECT_EQ(num_ends_, 60);
    return static_cast<double>(ends_ns_ / num_ends_) / kMs;
  }

  std::map<RequestId, std::string> tenant_of_;
  std::map<std::string, int> ended_of_;
  int64_t now_ns_ = 0, ends_ns_ = 0;
  int num_ends_ = 0;
};

TEST_F(PromptRowsTest, ABurstEndsSoonerByLargeSteps) {
  const double latency = MeanEndOfBurst(Goal::kLatency, 1024, 30 * kMs);
  const double throughput = MeanEndOfBurst(Goal::kThroughput, 16384, 1000 * kMs);
  EXPECT_LT(throughput, 0.95 * latency);
}

TEST_F(PromptRowsTest, ALonePromptGrowsItsSteps) {
  Make(Goal::kThroughput, 16384, 1000 * kMs);
  Add("", 11'000, 20);
  std::vector<int64_t> rows;
  for (int step = 0; step < 4; ++step) rows.push_back(Run().rows);
  EXPECT_EQ(rows[0], StepSize::kRowsFirst);
  EXPECT_EQ(rows[1], 2 * StepSize::kRowsFirst);
  EXPECT_GE(rows[2], 4 * StepSize::kRowsFirst);
  RunAll();
}

// Beside streams no step takes much longer than the bound, though rows at the end of these prompts
// take four times as long as those at the beginning.
TEST_F(PromptRowsTest, ExpensiveContextsKeepTheBound) {
  Make(Goal::kThroughput, 16384, 100 * kMs);
  for (int i = 0; i < 16; ++i) Add("", 100, 1000);
  for (int step = 0; step < 8; ++step) Run();
  Add("", 10'000, 2);
  int num_steps = 0;
  int64_t longest_ns = 0, rows_most = 0, rows_least = 1 << 30;
  while (num_ends_ == 0) {
    const Step step = Run();
    EXPECT_GE(step.decodes, 16);
    longest_ns = std::max(longest_ns, step.ns);
    rows_most = std::max(rows_most, step.rows);
    if (step.rows > 100) rows_least = std::min(rows_least, step.rows);
    ASSERT_LT(++num_steps, 200);
  }
  EXPECT_LT(longest_ns, 150 * kMs);
  EXPECT_GT(rows_most, 2 * rows_least);
}

// Ten tenants ask for as much, beside the flood of another one: it has little more than any of them
// until they have all they want.
TEST_F(PromptRowsTest, TenantsShareLargeSteps) {
  Make(Goal::kThroughput, 16384, 1000 * kMs);
  Warm();
  for (int i = 0; i < 100; ++i) Add("flood", 500, 4);
  Run();
  const auto name = [](int tenant) { return "t" + std::to_string(tenant); };
  for (int tenant = 0; tenant < 10; ++tenant) {
    for (int i = 0; i < 4; ++i) Add(name(tenant), 500, 4);
  }
  const int before = 16384 / 500 + 1;  // that the first step had
  const auto all_ended = [&] {
    for (int tenant = 0; tenant < 10; ++tenant) {
      if (ended_of_[name(tenant)] < 4) return false;
    }
    return true;
  };
  for (int step = 0; !all_ended(); ++step) {
    Run();
    ASSERT_LT(step, 100);
  }
  EXPECT_LE(ended_of_["flood"], before + 10);
  RunAll();
}

TEST_F(PromptRowsTest, PlansAreTheSameEachTime) {
  std::vector<int64_t> rows[2];
  for (std::vector<int64_t>& of_run : rows) {
    Make(Goal::kThroughput, 8192, 1000 * kMs);
    for (int i = 0; i < 90; ++i) Add("t" + std::to_string(i % 7), 20 + 57 * (i % 11), 1 + i % 20);
    while (!scheduler_->empty()) of_run.push_back(Run().rows);
  }
  EXPECT_EQ(rows[0], rows[1]);
}

// For latency the bound holds beside streams alone.
TEST_F(PromptRowsTest, LatencyHasAllRowsWhereNoStreamWaits) {
  Make(Goal::kLatency, 2048, 50 * kMs);
  Add("", 5000, 100);
  EXPECT_EQ(Run().rows, 2048);
  EXPECT_EQ(Run().rows, 2048);
  Run();
  Add("", 9000, 2);
  for (int step = 0; step < 6; ++step) EXPECT_LT(Run().ns, 90 * kMs);
}

}  // namespace prompt_rows_test
}  // namespace graft
