#include "placement/fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace graft {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kSecondNs = 1'000'000'000;

PlacedRequest For(int32_t adapter, int32_t rank = 16, uint64_t tenant = 0) {
  return {.adapter = adapter, .rank = rank, .tenant = tenant, .prompt_tokens = 10};
}

TEST(FleetTest, WhoGetsARequestHoldsItsAdapter) {
  Fleet fleet;
  fleet.SetNumRunners(3);
  fleet.Place(2, For(7));
  fleet.Place(0, For(7));
  EXPECT_THAT(fleet.Holders(7), ElementsAre(0, 2));
  EXPECT_FALSE(fleet.Holds(1, 7));
  EXPECT_TRUE(fleet.Holds(1, kBaseModel));
  fleet.Leave(0, For(7), false);
  EXPECT_THAT(fleet.Holders(7), ElementsAre(0, 2)) << "it stays on the device";
}

TEST(FleetTest, ARunnerWithoutACacheIsThoughtToHaveNothing) {
  Fleet fleet;
  fleet.SetNumRunners(2);
  PlacedRequest request = For(kBaseModel);
  request.prompt_tokens = 20;
  request.prefix = {uint64_t{1} << 48, uint64_t{2} << 48};
  for (size_t i = 0; i < 2; ++i) {
    fleet.runner(i).page_tokens = 8;
    fleet.runner(i).has_prefix_cache = i == 1;
    fleet.Place(i, request);
  }
  EXPECT_EQ(fleet.CachedTokensOn(0, request), 0);
  EXPECT_EQ(fleet.CachedTokensOn(1, request), 16);
}

TEST(FleetTest, WhatWasUnusedForLongestGoesFirst) {
  Fleet fleet;
  fleet.SetNumRunners(1);
  fleet.runner(0).adapters_max = 2;
  fleet.Place(0, For(1));
  fleet.Place(0, For(2));
  EXPECT_EQ(fleet.FirstToGo(0), kBaseModel) << "both are in use";
  fleet.Leave(0, For(2), false);
  fleet.Leave(0, For(1), false);
  EXPECT_EQ(fleet.FirstToGo(0), 2);
  fleet.Place(0, For(2));
  EXPECT_EQ(fleet.FirstToGo(0), 1);
  fleet.Place(0, For(3));
  EXPECT_THAT(fleet.Holders(1), ElementsAre(0)) << "until the other one has come";
  EXPECT_EQ(fleet.FirstToGo(0), kBaseModel) << "that one's place is taken, 2 is in use";
  fleet.Draw(0, For(3));
  EXPECT_THAT(fleet.Holders(1), IsEmpty());
  EXPECT_THAT(fleet.Holders(2), ElementsAre(0));
  EXPECT_THAT(fleet.Holders(3), ElementsAre(0));
}

TEST(FleetTest, WhatARunnerSaysReplacesWhatWasThought) {
  Fleet fleet;
  fleet.SetNumRunners(1);
  fleet.Place(0, For(1));
  fleet.Place(0, For(2));
  fleet.Leave(0, For(2), false);
  fleet.SetHeld(0, std::vector<int32_t>{3}, /*is_whole=*/false);
  EXPECT_TRUE(fleet.Holds(0, 2));
  fleet.SetHeld(0, std::vector<int32_t>{3, 4}, /*is_whole=*/true);
  EXPECT_TRUE(fleet.Holds(0, 1)) << "it has a request there";
  EXPECT_FALSE(fleet.Holds(0, 2));
  EXPECT_TRUE(fleet.Holds(0, 3) && fleet.Holds(0, 4));
  EXPECT_EQ(fleet.NumHeld(0), 3u);
}

TEST(FleetTest, AdaptersOnTheirWayForOthersAreHeldAndNotCountedAsComing) {
  Fleet fleet;
  fleet.SetNumRunners(2);
  fleet.Place(0, For(1));
  ASSERT_EQ(fleet.NumComing(0), 1);
  fleet.SetHeld(0, {}, /*is_whole=*/true, std::vector<int32_t>{1, 2});
  EXPECT_TRUE(fleet.Holds(0, 2));
  EXPECT_FALSE(fleet.Holds(1, 2));
  EXPECT_EQ(fleet.NumComing(0), 1) << "the one that a request of its own waits for";
  fleet.SetHeld(0, std::vector<int32_t>{1}, /*is_whole=*/true);
  EXPECT_FALSE(fleet.Holds(0, 2)) << "its load has failed, or nobody waits for it any more";
  EXPECT_EQ(fleet.NumComing(0), 0);
}

TEST(FleetTest, RanksOfOthersCountAsTheMeanOfOnes) {
  Fleet fleet;
  fleet.SetNumRunners(2);
  fleet.runner(0).num_requests = 2;
  fleet.runner(1).num_requests = 4;  // two of them another owner's
  fleet.Place(0, For(1, 8));
  fleet.Place(0, For(1, 32));
  fleet.Place(1, For(2, 8));
  fleet.Place(1, For(3, 64));
  EXPECT_EQ(fleet.RanksOf(0).sum, 40);
  EXPECT_EQ(fleet.RanksOf(0).largest, 32);
  EXPECT_EQ(fleet.RanksOf(1).sum, 72 + 2 * 28);
  fleet.Leave(1, For(3, 64), false);
  EXPECT_EQ(fleet.RanksOf(1).largest, 16) << "the mean of 8, 32 and 8";
}

TEST(FleetTest, PromptsWaitUntilSomethingWasDrawn) {
  Fleet fleet;
  fleet.SetNumRunners(1);
  fleet.Place(0, For(1));
  fleet.Place(0, For(2));
  EXPECT_EQ(fleet.UndrawnPromptTokens(0), 20);
  fleet.Draw(0, For(1));
  EXPECT_EQ(fleet.UndrawnPromptTokens(0), 10);
  fleet.Leave(0, For(1), /*has_drawn=*/true);
  fleet.Leave(0, For(2), /*has_drawn=*/false);
  EXPECT_EQ(fleet.UndrawnPromptTokens(0), 0);
}

TEST(FleetTest, AnAdapterComesUntilSomethingWasDrawn) {
  Fleet fleet;
  fleet.SetNumRunners(1);
  fleet.Place(0, For(1));
  fleet.Place(0, For(1));
  fleet.Place(0, For(2));
  fleet.Place(0, For(kBaseModel, 0));
  EXPECT_EQ(fleet.NumComing(0), 2);
  fleet.Draw(0, For(1));
  EXPECT_EQ(fleet.NumComing(0), 1);
  fleet.Leave(0, For(2), /*has_drawn=*/false);
  EXPECT_EQ(fleet.NumComing(0), 0) << "nobody waits for it";
  fleet.Place(0, For(2));
  EXPECT_EQ(fleet.NumComing(0), 0) << "it may have come since";
  fleet.Place(0, For(3));
  EXPECT_EQ(fleet.NumComing(0), 1);
  fleet.SetHeld(0, std::vector<int32_t>{3}, /*is_whole=*/false);
  EXPECT_EQ(fleet.NumComing(0), 0) << "the runner says that it has it";
}

TEST(FleetTest, AdaptersInUseBeyondThePlacesAreCounted) {
  Fleet fleet;
  fleet.SetNumRunners(1);
  fleet.Place(0, For(1));
  EXPECT_EQ(fleet.NumBeyondPlaces(0), 0) << "it does not say how many it holds";
  fleet.runner(0).adapters_max = 2;
  fleet.Place(0, For(2));
  EXPECT_EQ(fleet.NumBeyondPlaces(0), 0);
  fleet.Place(0, For(3));
  fleet.Place(0, For(4));
  EXPECT_EQ(fleet.NumBeyondPlaces(0), 2);
  fleet.Leave(0, For(1), /*has_drawn=*/false);
  EXPECT_EQ(fleet.NumBeyondPlaces(0), 1);
}

TEST(FleetTest, PromptsOfOthersCountAsTheMeanOfOnes) {
  Fleet fleet;
  fleet.SetNumRunners(2);
  fleet.runner(0).num_requests = 3;  // two of them another owner's
  fleet.runner(1).num_requests = 1;
  fleet.Place(0, For(1));
  PlacedRequest longer = For(2);
  longer.prompt_tokens = 30;
  fleet.Place(1, longer);
  EXPECT_DOUBLE_EQ(fleet.PromptTokensOf(0), 10 + 2 * 20);
  EXPECT_DOUBLE_EQ(fleet.ShareOfOthers(0), 2.0 / 3);
  EXPECT_EQ(fleet.ShareOfOthers(1), 0.0);
  EXPECT_DOUBLE_EQ(fleet.PromptTokensOf(1), 30);
  fleet.Leave(1, longer, /*has_drawn=*/false);
  EXPECT_DOUBLE_EQ(fleet.PromptTokensOf(0), 30);
}

TEST(FleetTest, LoadIsWhatIsThereOrWhatTheRateBrings) {
  Fleet fleet;
  fleet.SetNumRunners(1);
  EXPECT_EQ(fleet.LoadOf(5, 0), 0.0);
  for (int i = 0; i < 30; ++i) fleet.Arrive(5, 0);
  EXPECT_NEAR(fleet.RateOf(5, 0), 1.0, 1e-12);
  EXPECT_NEAR(fleet.RateOf(5, 30 * kSecondNs), std::exp(-1.0), 1e-12);
  for (int i = 0; i < 3000; ++i) fleet.End(4.0, 200);
  EXPECT_NEAR(fleet.LoadOf(5, 0), 4.0, 1e-9) << "one a second, each for four seconds";
  EXPECT_NEAR(fleet.MeanOutputTokens(), 200.0, 1e-9);
  for (int i = 0; i < 6; ++i) fleet.Place(0, For(5));
  EXPECT_DOUBLE_EQ(fleet.LoadOf(5, 0), 6.0);
}

TEST(FleetTest, AnAdapterIsForgottenOnceNobodyHasOrWantsIt) {
  Fleet fleet;
  fleet.SetNumRunners(1);
  EXPECT_TRUE(fleet.IsForgotten(3, 0));
  fleet.Arrive(3, 0);
  EXPECT_FALSE(fleet.IsForgotten(3, 60 * kSecondNs));
  EXPECT_TRUE(fleet.IsForgotten(3, 600 * kSecondNs));
  fleet.Place(0, For(3));
  EXPECT_FALSE(fleet.IsForgotten(3, 600 * kSecondNs));
  fleet.Leave(0, For(3), false);
  EXPECT_FALSE(fleet.IsForgotten(3, 600 * kSecondNs)) << "its holder has it";
  fleet.SetHeld(0, {}, /*is_whole=*/true);
  EXPECT_TRUE(fleet.IsForgotten(3, 600 * kSecondNs));
}

TEST(FleetTest, PressureIsHowFarATenantIsBeyondItsShare) {
  Fleet fleet;
  fleet.SetNumRunners(2);
  for (int i = 0; i < 6; ++i) fleet.Place(0, For(1, 8, /*tenant=*/1));
  EXPECT_DOUBLE_EQ(fleet.Pressure(1, 1.0f), 1.0) << "it is alone";
  fleet.Place(1, For(2, 8, /*tenant=*/2));
  fleet.Place(1, For(2, 8, /*tenant=*/2));
  EXPECT_DOUBLE_EQ(fleet.Pressure(1, 1.0f), 6.0 / 4.0);
  EXPECT_DOUBLE_EQ(fleet.Pressure(2, 1.0f), 1.0);
  EXPECT_DOUBLE_EQ(fleet.Pressure(1, 3.0f), 1.0) << "three quarters are its own";
  const RunnerCount counts[] = {{.runner = 0, .count = 6}};
  EXPECT_TRUE(std::ranges::equal(fleet.TenantRequests(1), counts));
  EXPECT_TRUE(fleet.TenantRequests(3).empty());
}

TEST(FleetTest, ARunnerThatWasResetHoldsNothing) {
  Fleet fleet;
  fleet.SetNumRunners(2);
  fleet.Place(1, For(1));
  fleet.Leave(1, For(1), false);
  fleet.runner(1).is_open = true;
  fleet.Reset(1);
  EXPECT_FALSE(fleet.runner(1).is_open);
  EXPECT_THAT(fleet.Holders(1), IsEmpty());
}

}  // namespace
}  // namespace graft
