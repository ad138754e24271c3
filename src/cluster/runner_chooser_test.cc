#include "cluster/runner_chooser.h"

#include <gtest/gtest.h>

#include "base/prefix_hash.h"

namespace graft {
namespace {

constexpr int64_t kMinuteNs = 60'000'000'000;

std::vector<RemoteRunner> UpRunners(size_t num_runners) {
  std::vector<RemoteRunner> runners(num_runners);
  for (size_t i = 0; i < num_runners; ++i) {
    runners[i].address = "runner" + std::to_string(i) + ":7001";
    runners[i].is_up = true;
    runners[i].facts.batch_max = 4;
  }
  return runners;
}

Request RequestFor(const std::string& adapter) {
  Request request;
  request.UseAdapter(adapter);
  request.prompt_tokens = {1, 2, 3};
  return request;
}

RunnerChooser MakeChooser(PlacementKind kind) {
  PlacementOptions options;
  options.kind = kind;
  return RunnerChooser(options);
}

class RunnerChooserTest : public testing::Test {
 protected:
  // What a request for the adapter would get, and gets.
  int32_t Choose(RunnerChooser& chooser, const std::string& adapter) {
    const PlacedRequest request = chooser.Arrive(RequestFor(adapter), 8, 0);
    return chooser.Pick(runners_, std::vector<uint8_t>(runners_.size(), 1), request, 0);
  }
  std::vector<RemoteRunner> runners_ = UpRunners(3);
};

TEST_F(RunnerChooserTest, TakesTheMostIdle) {
  RunnerChooser chooser = MakeChooser(PlacementKind::kMostIdle);
  runners_[0].load.requests_running = 3;
  runners_[1].load.requests_running = 1;
  runners_[2].load.requests_running = 1;
  EXPECT_EQ(Choose(chooser, "aa"), 1);
  chooser.SetResident(2, std::vector<std::string>{"aa"}, /*is_whole=*/true);
  EXPECT_EQ(Choose(chooser, "aa"), 2) << "of equals the one that has the adapter on its device";
  EXPECT_EQ(Choose(chooser, ""), 1);
  runners_[1].num_sent = 4;  // since it said so
  EXPECT_EQ(Choose(chooser, ""), 2);
}

TEST_F(RunnerChooserTest, AnAdapterOnItsWayIsNotLoadedElsewhere) {
  RunnerChooser chooser = MakeChooser(PlacementKind::kMostIdle);
  const std::vector<std::string> resident = {"bb"}, loading = {"aa"};
  chooser.SetResident(1, resident, /*is_whole=*/true, loading);
  EXPECT_EQ(chooser.NumHolders("aa"), 1);
  EXPECT_EQ(Choose(chooser, "aa"), 1);
  chooser.SetResident(1, loading, /*is_whole=*/true, resident);
  EXPECT_EQ(chooser.NumHolders("bb"), 1) << "the other way round is news";
  chooser.SetResident(1, loading, /*is_whole=*/true);
  EXPECT_EQ(chooser.NumHolders("bb"), 0) << "it did not come";
}

TEST_F(RunnerChooserTest, SpareRunnersAreLeftIdleWhileOthersHaveRoom) {
  using Allowed = std::vector<uint8_t>;
  RunnerChooser chooser = MakeChooser(PlacementKind::kMostIdle);
  const PlacedRequest request = chooser.Arrive(RequestFor("aa"), 8, 0);
  runners_[2].is_spare = true;
  Allowed allowed = {1, 1, 1};
  chooser.LeaveSpareOut(runners_, request, &allowed);
  EXPECT_EQ(allowed, (Allowed{1, 1, 0}));
  allowed = {0, 0, 1};
  chooser.LeaveSpareOut(runners_, request, &allowed);
  EXPECT_EQ(allowed, (Allowed{0, 0, 1})) << "nobody else can take it";
  runners_[0].load.requests_running = runners_[1].load.requests_running = 4;
  allowed = {1, 1, 1};
  chooser.LeaveSpareOut(runners_, request, &allowed);
  EXPECT_EQ(allowed, (Allowed{1, 1, 1})) << "the others are full";
  runners_[1].load.requests_running = 3;
  chooser.KeepWithRoom(runners_, request, &allowed);
  EXPECT_EQ(allowed, (Allowed{0, 1, 0}));
}

TEST_F(RunnerChooserTest, WhatItSentThereIsThere) {
  RunnerChooser chooser = MakeChooser(PlacementKind::kMostIdle);
  EXPECT_EQ(Choose(chooser, "aa"), 0);
  const PlacedRequest request = chooser.Arrive(RequestFor("aa"), 8, 0);
  chooser.OnPlaced(1, request);
  EXPECT_EQ(Choose(chooser, "aa"), 1);
  EXPECT_EQ(Choose(chooser, "bb"), 0);
  chooser.OnFirstToken(1, request);
  chooser.OnLeft(1, request, /*has_drawn=*/true);
  EXPECT_EQ(Choose(chooser, "aa"), 1);
  chooser.Forget(1);
  EXPECT_EQ(Choose(chooser, "aa"), 0) << "it came back empty";
}

// Each frontend numbers adapters as they come, and has its own order of runners.
TEST_F(RunnerChooserTest, AllFrontendsHashAlike) {
  RunnerChooser one = MakeChooser(PlacementKind::kRendezvous);
  RunnerChooser other = MakeChooser(PlacementKind::kRendezvous);
  std::vector<int32_t> chosen;
  for (int i = 0; i < 40; ++i) chosen.push_back(Choose(one, "adapter" + std::to_string(i)));
  std::swap(runners_[0], runners_[2]);
  for (int i = 39; i >= 0; --i) {
    const int32_t swapped = Choose(other, "adapter" + std::to_string(i));
    EXPECT_EQ(2 - swapped, chosen[static_cast<size_t>(i)]);
  }
}

TEST_F(RunnerChooserTest, PagesPromisedAreNotFree) {
  RunnerChooser chooser = MakeChooser(PlacementKind::kPunica);
  EXPECT_TRUE(chooser.keeps_order());
  runners_.resize(1);
  runners_[0].load.requests_running = 1;  // else all pages could be had
  runners_[0].facts.page_tokens = 16;
  runners_[0].load.pages_free = 5;
  EXPECT_EQ(Choose(chooser, ""), 0);
  runners_[0].pages_sent = 4;
  EXPECT_EQ(Choose(chooser, ""), kNoRunner);
}

// Named as the runner's cache names them: tenant, salt, adapter and pages' size count.
TEST_F(RunnerChooserTest, LooksForPrefixesThatRunnersTellOf) {
  RunnerChooser chooser = MakeChooser(PlacementKind::kAuto);
  for (RemoteRunner& runner : runners_) runner.facts.page_tokens = 2;
  chooser.Plan(runners_, 0);
  Request request = RequestFor("aa");
  request.prompt_tokens = {1, 2, 3, 4, 5};
  request.tenant = "t";
  request.cache_salt = "s";
  std::vector<uint64_t> words(kPrefixClassWords);
  const std::string shared_with("t\0s", 3);
  for (const uint64_t name : PrefixNames(EmptyPrefixName(shared_with, "aa", 0, 2),
                                         request.prompt_tokens, 2, kPrefixPagesMax)) {
    words[PrefixClass(name) / 64] |= uint64_t{1} << PrefixClass(name) % 64;
  }
  chooser.SetPrefixes(2, words);
  const PlacedRequest placed = chooser.Arrive(request, 8, 0);
  EXPECT_EQ(chooser.CachedTokensOn(2, placed), 4);
  EXPECT_EQ(chooser.CachedTokensOn(1, placed), 0);
  EXPECT_EQ(chooser.Pick(runners_, std::vector<uint8_t>{1, 1, 1}, placed, 0), 2);
  request.tenant = "another";
  EXPECT_EQ(chooser.CachedTokensOn(2, chooser.Arrive(request, 8, 0)), 0);
  chooser.Forget(2);
  EXPECT_EQ(chooser.CachedTokensOn(2, placed), 0) << "it came back empty";
  RunnerChooser idlest = MakeChooser(PlacementKind::kMostIdle);
  idlest.Plan(runners_, 0);
  EXPECT_TRUE(idlest.Arrive(request, 8, 0).prefix.empty()) << "it does not look";
}

TEST_F(RunnerChooserTest, NumbersOfForgottenAdaptersAreUsedAgain) {
  RunnerChooser chooser = MakeChooser(PlacementKind::kAuto);
  const int32_t kept = chooser.Arrive(RequestFor("kept"), 8, 0).adapter;
  chooser.SetResident(0, std::vector<std::string>{"kept"}, true);
  const int32_t left = chooser.Arrive(RequestFor("left"), 8, 0).adapter;
  chooser.Plan(runners_, kMinuteNs);
  EXPECT_NE(chooser.Arrive(RequestFor("new"), 8, kMinuteNs).adapter, left);
  for (int i = 0; i < 3; ++i) chooser.Plan(runners_, 30 * kMinuteNs);
  const int32_t newer = chooser.Arrive(RequestFor("newer"), 8, 30 * kMinuteNs).adapter;
  EXPECT_LE(newer, 2) << "one of those two numbers";
  EXPECT_NE(newer, kept);
  EXPECT_EQ(chooser.Arrive(RequestFor("kept"), 8, 30 * kMinuteNs).adapter, kept);
}

}  // namespace
}  // namespace graft
