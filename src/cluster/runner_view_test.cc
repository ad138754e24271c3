#include "cluster/runner_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace graft {
namespace {

using testing::ElementsAre;

RunnerView UpRunner() {
  RunnerView view;
  view.is_up = true;
  view.arithmetic_id = "cpu";
  view.adapters = {"aa"};
  return view;
}

TEST(RunnerViewTest, LeavesOutWhoCannot) {
  std::vector<RunnerView> runners(4, UpRunner());
  runners[0].is_up = false;
  runners[1].draining = true;
  EXPECT_THAT(WhoCanTake(runners, {}), ElementsAre(0, 0, 1, 1));
  runners[2].arithmetic_id = "hopper";
  EXPECT_THAT(WhoCanTake(runners, {.pool = "cpu"}), ElementsAre(0, 0, 0, 1));
  runners[3].adapters.clear();
  const AdapterUse aa[] = {{.hash = "aa"}};
  const AdapterUse both[] = {{.hash = "aa"}, {.hash = "bb", .weight = 0.5f}};
  EXPECT_THAT(WhoCanTake(runners, {.adapters = aa, .pool = "cpu"}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(WhoCanTake(runners, {.adapters = aa}), ElementsAre(0, 0, 1, 0));
  const size_t refused[] = {2};
  EXPECT_THAT(WhoCanTake(runners, {.adapters = aa, .refused = refused}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(WhoCanTake(runners, {.adapters = both}), ElementsAre(0, 0, 0, 0));
  runners[2].adapters.insert("bb");
  EXPECT_THAT(WhoCanTake(runners, {.adapters = both}), ElementsAre(0, 0, 1, 0));
}

TEST(RunnerViewTest, RequestsAreThoseItToldOfAndThoseSentSince) {
  RunnerView runner = UpRunner();
  runner.load.requests_running = 3;
  runner.load.requests_waiting = 1;
  EXPECT_EQ(RequestsOf(runner), 4);
  runner.num_sent = 2;
  EXPECT_EQ(RequestsOf(runner), 6);
  runner.num_in_flight = 7;  // it told of fewer than are there by now
  EXPECT_EQ(RequestsOf(runner), 7);
}

TEST(RunnerViewTest, RoomIsPagesThatNobodyUsesOrIsPromised) {
  RunnerView runner = UpRunner();
  EXPECT_FALSE(HasPagesFor(runner, 1)) << "it does not say";
  runner.page_tokens = 16;
  runner.load.pages_free = 10;
  EXPECT_TRUE(HasPagesFor(runner, 160));
  EXPECT_FALSE(HasPagesFor(runner, 161));
  runner.pages_sent = 1;
  EXPECT_TRUE(HasPagesFor(runner, 144));
  EXPECT_FALSE(HasPagesFor(runner, 145));
  runner.load.requests_waiting = 1;
  EXPECT_FALSE(HasPagesFor(runner, 144));
}

}  // namespace
}  // namespace graft
