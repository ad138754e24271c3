// When emptying a runner costs less than it saves.
#include "placement/scale_hint.h"

#include <gtest/gtest.h>

#include <vector>

namespace graft {
namespace {

// Steps of 10 ms; 0.1 ms for a token of a prompt. Answers of 100 tokens.
class ConsolidationTest : public testing::Test {
 protected:
  void SetUp() override {
    costs_.step_ms = 10;
    costs_.step_ms_per_row = costs_.step_ms_per_unit = costs_.step_ms_per_context_token = 0;
    costs_.step_ms_per_prompt_token = 0.1;
    fleet_.SetNumRunners(2);
    for (size_t i = 0; i < 2; ++i) fleet_.runner(i) = {.is_open = true, .batch_max = 4};
    for (int i = 0; i < 3000; ++i) fleet_.End(1.0, 100);
  }
  bool IsWorth(const std::vector<MovableRequest>& requests, std::vector<uint8_t> targets = {1, 1}) {
    return IsWorthEmptying(fleet_, 0, requests, targets, costs_);
  }

  CostModel costs_;
  Fleet fleet_;
};

// What is left takes 100 steps of 10 ms.
TEST_F(ConsolidationTest, ARequestIsMovedForLessThanHalfOfWhatItStillTakes) {
  EXPECT_TRUE(IsWorthMoving(fleet_, 0, {4900, 1000}, costs_));
  EXPECT_FALSE(IsWorthMoving(fleet_, 0, {5100, 1000}, costs_));
  EXPECT_FALSE(IsWorthMoving(fleet_, 0, {4900, 90}, costs_)) << "it may draw 90 more at most";
}

// Whatever part of the costs its prompt's time lies in.
TEST_F(ConsolidationTest, WhatAPromptCostsIsAllThatAStepCostsMoreForIt) {
  EXPECT_TRUE(IsWorthMoving(fleet_, 0, {4000, 1000, 64}, costs_));
  CostModel by_rank = costs_, by_length = costs_, by_steps = costs_;
  by_rank.step_ms_per_prompt_unit = 0.001;
  EXPECT_FALSE(IsWorthMoving(fleet_, 0, {4000, 1000, 64}, by_rank));
  EXPECT_TRUE(IsWorthMoving(fleet_, 0, {4000, 1000, 8}, by_rank));
  by_length.step_ms_per_prompt_pair = 0.0001;
  EXPECT_FALSE(IsWorthMoving(fleet_, 0, {4000, 1000}, by_length));
  EXPECT_TRUE(IsWorthMoving(fleet_, 0, {1000, 1000}, by_length));
  by_steps.step_ms_with_prompts = 150;
  EXPECT_FALSE(IsWorthMoving(fleet_, 0, {4000, 1000}, by_steps));
}

// The last of three is expected to end after 100 x (1 + 1/2 + 1/3) steps, 1,833 ms.
TEST_F(ConsolidationTest, ARunnerIsEmptiedForLessThanHalfOfWhatItStillTakes) {
  EXPECT_TRUE(IsWorth({{3000, 1000}, {3000, 1000}, {3000, 1000}}));
  EXPECT_FALSE(IsWorth({{3100, 1000}, {3100, 1000}, {3100, 1000}}));
  EXPECT_FALSE(IsWorth({{3000, 150}, {3000, 150}, {3000, 150}})) << "it is free after 150";
}

TEST_F(ConsolidationTest, OthersMustHavePlacesForAll) {
  const std::vector<MovableRequest> two(2, {100, 1000});
  fleet_.runner(1).num_requests = 2;
  EXPECT_TRUE(IsWorth(two));
  fleet_.runner(1).num_requests = 3;
  EXPECT_FALSE(IsWorth(two));
  fleet_.runner(1).num_requests = 0;
  EXPECT_FALSE(IsWorth(two, {1, 0})) << "no target";
  fleet_.runner(1).is_open = false;
  EXPECT_FALSE(IsWorth(two)) << "going itself";
  fleet_.runner(1) = {.is_open = true};
  EXPECT_FALSE(IsWorth(two)) << "it does not say what it can take";
}

}  // namespace
}  // namespace graft
