// How many runners are wanted for loads that rise, fall and jump, and which may go.
#include "placement/scale_hint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace graft {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kLookEveryNs = 1'000'000'000;

// What is wanted after `seconds` of this load, looked at once a second.
int32_t WantedAfter(int seconds, const std::function<double(int)>& filled_at,
                    const ScaleOptions& options = {}, int32_t num_open = 1) {
  ScaleAdvisor advisor;
  for (int i = 0; i <= seconds; ++i) {
    advisor.Observe(filled_at(i), num_open, options, i * kLookEveryNs);
  }
  return advisor.wanted();
}

Fleet FleetOf(const std::vector<RunnerState>& states) {
  Fleet fleet;
  fleet.SetNumRunners(states.size());
  for (size_t i = 0; i < states.size(); ++i) fleet.runner(i) = states[i];
  return fleet;
}

// Steps that take as long however many requests they have.
CostModel EvenSteps() {
  CostModel costs;
  costs.step_ms = 10;
  costs.step_ms_per_row = costs.step_ms_per_unit = 0;
  costs.step_ms_per_prompt_token = costs.step_ms_per_context_token = 0;
  return costs;
}

TEST(ScaleHintTest, AnEvenLoadWantsWhatItFills) {
  EXPECT_EQ(WantedAfter(100, [](int) { return 0.0; }), 1);
  EXPECT_EQ(WantedAfter(100, [](int) { return 2.0; }), 2);
  EXPECT_EQ(WantedAfter(100, [](int) { return 2.25; }), 3);
}

// A tenth of a runner more each second: three more when a runner that is ordered now serves.
TEST(ScaleHintTest, ARisingLoadWantsWhatItComesToWhileARunnerStarts) {
  const auto rising = [](int second) { return 4.0 + 0.1 * second; };
  EXPECT_EQ(WantedAfter(60, rising), 13);
  EXPECT_EQ(WantedAfter(60, rising, {.startup_seconds = 60.0}), 15)
      << "half as much again as was seen is the most";
  EXPECT_EQ(WantedAfter(60, rising, {.startup_seconds = 1.0}), 11);
}

TEST(ScaleHintTest, AFallingLoadGivesBackAfterAStartsTime) {
  const auto dropping = [](int second) { return second < 300 ? 8.0 : 0.5; };
  EXPECT_EQ(WantedAfter(299, dropping), 8);
  EXPECT_GE(WantedAfter(300 + 30, dropping), 8);
  EXPECT_EQ(WantedAfter(300 + 120 + 31, dropping), 1);
}

TEST(ScaleHintTest, WhatWavesWantsMoreThanWhatIsEven) {
  const auto waving = [](int second) { return second % 2 == 0 ? 3.4 : 4.0; };
  EXPECT_EQ(WantedAfter(100, waving), 5);
  EXPECT_EQ(WantedAfter(100, [](int) { return 4.0; }), 4);
}

TEST(ScaleHintTest, WhoHasJustBegunTakesNothingAway) {
  EXPECT_EQ(WantedAfter(
                0, [](int) { return 0.0; }, {}, 5),
            5);
  EXPECT_EQ(WantedAfter(
                29, [](int) { return 0.0; }, {}, 5),
            5);
  EXPECT_EQ(WantedAfter(
                30, [](int) { return 0.0; }, {}, 5),
            1);
}

TEST(ScaleHintTest, TheFirstRequestIsNoTrend) {
  const auto first = [](int second) { return second == 0 ? 0.0 : 1.0; };
  EXPECT_EQ(WantedAfter(1, first), 1);
  EXPECT_EQ(WantedAfter(29, first), 1);
}

TEST(ScaleHintTest, WhatIsFilledIsRequestsOrPages) {
  RunnerState one = {.is_open = true, .batch_max = 8, .num_requests = 6};
  RunnerState two = {.is_open = true, .batch_max = 8, .num_requests = 2};
  EXPECT_DOUBLE_EQ(RunnersFilled(FleetOf({one, two}), 4, 1.0, EvenSteps()), 1.5);
  EXPECT_DOUBLE_EQ(RunnersFilled(FleetOf({one, two}), 4, 0.5, EvenSteps()), 3.0);
  one.num_pages = two.num_pages = 100;
  one.pages_used = 90;
  two.pages_used = 100;
  EXPECT_DOUBLE_EQ(RunnersFilled(FleetOf({one, two}), 0, 1.0, EvenSteps()), 1.9);
  // What is on a runner that goes needs a place elsewhere.
  two.is_open = false;
  EXPECT_DOUBLE_EQ(RunnersFilled(FleetOf({one, two}), 0, 1.0, EvenSteps()), 1.9);
  two.pages_used = 0;
  EXPECT_DOUBLE_EQ(RunnersFilled(FleetOf({one, two}), 2, 1.0, EvenSteps()), 1.25);
}

// Two of eight draw 2 / 12 a ms, where a full batch would draw 8 / 18: more than a quarter of it.
TEST(ScaleHintTest, ABatchThatIsNotFullIsFaster) {
  CostModel costs = EvenSteps();
  costs.step_ms_per_row = 1;
  const RunnerState two = {.is_open = true, .batch_max = 8, .num_requests = 2};
  EXPECT_DOUBLE_EQ(RunnersFilled(FleetOf({two}), 0, 1.0, costs), 0.375);
  RunnerState full = two;
  full.num_requests = 8;
  EXPECT_DOUBLE_EQ(RunnersFilled(FleetOf({full}), 0, 1.0, costs), 1.0);
  full.num_requests = 12;
  EXPECT_DOUBLE_EQ(RunnersFilled(FleetOf({full}), 0, 1.0, costs), 1.5) << "four wait";
  // Prompts that come meanwhile are work, too: 128 tokens of each for 128 that are drawn.
  costs.step_ms_per_row = 0;
  costs.step_ms_per_prompt_token = 1;
  EXPECT_DOUBLE_EQ(RunnersFilled(FleetOf({two}), 0, 1.0, costs), 0.375);
}

TEST(ScaleHintTest, WithoutRunnersThatSpeakThereIsNothingToCount) {
  EXPECT_DOUBLE_EQ(RunnersFilled(FleetOf({}), 0, 1.0, EvenSteps()), 0.0);
  EXPECT_DOUBLE_EQ(RunnersFilled(FleetOf({{.num_requests = 1}}), 0, 1.0, EvenSteps()), 1.0);
  EXPECT_DOUBLE_EQ(
      RunnersFilled(FleetOf({{.is_open = true}, {.is_open = true}}), 9, 1.0, EvenSteps()), 2.0);
}

TEST(ScaleHintTest, NumbersInNamesAreNumbers) {
  EXPECT_TRUE(ComesBefore("runner-9.svc", "runner-10.svc"));
  EXPECT_FALSE(ComesBefore("runner-10.svc", "runner-9.svc"));
  EXPECT_TRUE(ComesBefore("a-2", "b-1"));
  EXPECT_TRUE(ComesBefore("a", "a-1"));
  EXPECT_TRUE(ComesBefore("127.0.0.1:700", "127.0.0.1:7001"));
  EXPECT_FALSE(ComesBefore("a-01", "a-1"));
  EXPECT_FALSE(ComesBefore("a-1", "a-01"));
}

TEST(ScaleHintTest, TheLastByNameMayGo) {
  const std::vector<std::string> names = {"r-2", "r-10", "r-0", "r-1"};
  const std::vector<uint8_t> all = {1, 1, 1, 1}, some = {1, 0, 1, 1};
  EXPECT_THAT(RunnersToSpare(names, all, 2), ElementsAre(0, 1));
  EXPECT_THAT(RunnersToSpare(names, some, 2), ElementsAre(0));
  EXPECT_THAT(RunnersToSpare(names, all, 4), IsEmpty());
  EXPECT_THAT(RunnersToSpare(names, all, 0), ElementsAre(3, 0, 1)) << "one stays";
}

}  // namespace
}  // namespace graft
