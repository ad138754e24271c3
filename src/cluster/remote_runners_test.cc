
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/remote_runners.h"

namespace graft {
namespace {

using testing::ElementsAre;

RemoteRunner UpRunner() {
  RemoteRunner runner;
  runner.is_up = true;
  runner.facts.arithmetic_id = "cpu";
  runner.adapters = {"aa"};
  return runner;
}

TEST(RemoteRunnerTest, LeavesOutThoseThatCannot) {
  std::vector<RemoteRunner> runners;
  for (int i = 0; i < 4; ++i) runners.push_back(UpRunner());
  runners[0].is_up = false;
  runners[1].draining = true;
  EXPECT_THAT(WhichCanTake(runners, {}), ElementsAre(0, 0, 1, 1));
  runners[2].facts.arithmetic_id = "hopper";
  EXPECT_THAT(WhichCanTake(runners, {.pool = "cpu"}), ElementsAre(0, 0, 0, 1));
  runners[3].adapters.clear();
  const AdapterUse aa[] = {{.hash = "aa"}};
  const AdapterUse both[] = {{.hash = "aa"}, {.hash = "bb", .weight = 0.5f}};
  EXPECT_THAT(WhichCanTake(runners, {.adapters = aa, .pool = "cpu"}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(WhichCanTake(runners, {.adapters = aa}), ElementsAre(0, 0, 1, 0));
  const size_t refused[] = {2};
  EXPECT_THAT(WhichCanTake(runners, {.adapters = aa, .refused = refused}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(WhichCanTake(runners, {.adapters = both}), ElementsAre(0, 0, 0, 0));
  runners[2].adapters.insert("bb");
  EXPECT_THAT(WhichCanTake(runners, {.adapters = both}), ElementsAre(0, 0, 1, 0));
}

TEST(RemoteRunnerTest, RequestsAreThoseItToldOfAndThoseSentSince) {
  RemoteRunner runner = UpRunner();
  runner.load.requests_running = 3;
  runner.load.requests_waiting = 1;
  EXPECT_EQ(runner.NumRequests(), 4);
  runner.num_sent = 2;
  EXPECT_EQ(runner.NumRequests(), 6);
  runner.num_in_flight = 7;  // it told of fewer than are there by now
  EXPECT_EQ(runner.NumRequests(), 7);
}

TEST(RemoteRunnerTest, RoomIsPagesThatNobodyUsesOrIsPromised) {
  RemoteRunner runner = UpRunner();
  EXPECT_FALSE(runner.HasPagesFor(1)) << "it does not say";
  runner.facts.page_tokens = 16;
  runner.load.pages_free = 10;
  EXPECT_TRUE(runner.HasPagesFor(160));
  EXPECT_FALSE(runner.HasPagesFor(161));
  runner.pages_sent = 1;
  EXPECT_TRUE(runner.HasPagesFor(144));
  EXPECT_FALSE(runner.HasPagesFor(145));
  runner.load.requests_waiting = 1;
  EXPECT_FALSE(runner.HasPagesFor(144));
}

TEST(RemoteRunnersTest, APlaceIsFreeForTheNext) {
  RemoteRunners runners({"a:1", "b:1"});
  EXPECT_EQ(runners.PlaceFor("b:1"), 1u);
  EXPECT_EQ(runners.PlaceFor("c:1"), 2u);
  runners[1].is_listed = false;
  runners.Forget(0);
  EXPECT_EQ(runners[0].address, "a:1") << "it is listed";
  runners.Forget(1);
  EXPECT_EQ(runners.NumKnown(), 2);
  EXPECT_FALSE(runners[1].is_listed);
  EXPECT_EQ(runners.PlaceFor("d:1"), 1u);
}

TEST(RemoteRunnersTest, CountsThatAreWrongAreFound) {
  RemoteRunners runners({"a:1", "b:1"});
  const auto check = [&runners](std::vector<int64_t> num_in_flight) {
    return runners.CheckIntegrity(num_in_flight).ok();
  };
  EXPECT_TRUE(check({0, 0}));
  EXPECT_FALSE(check({0, 1})) << "it counts none";
  runners[1].Enter(10);
  EXPECT_FALSE(check({0, 1})) << "it is down";
  runners[1].Leave();
  runners[1].is_up = true;
  EXPECT_FALSE(check({0, 0})) << "it has no link";
  runners[1].is_up = false;
  runners[0].address.clear();
  EXPECT_FALSE(check({0, 0})) << "a free place is listed";
}

}  // namespace
}  // namespace graft
