#include "cluster/runner_view.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

RunnerView UpRunner(int64_t running) {
  RunnerView view;
  view.is_up = true;
  view.arithmetic_id = "cpu";
  view.adapters = {"aa"};
  view.load.requests_running = running;
  return view;
}

TEST(RunnerViewTest, PicksTheMostIdle) {
  EXPECT_EQ(PickMostIdle({UpRunner(3), UpRunner(1), UpRunner(1)}, {}), 1);
  std::vector<RunnerView> runners = {UpRunner(3), UpRunner(1)};
  runners[1].num_sent = 4;  // since it said so
  EXPECT_EQ(PickMostIdle(runners, {}), 0);
}

TEST(RunnerViewTest, OfEquallyIdlePicksWhoHasTheAdapterOnItsDevice) {
  std::vector<RunnerView> runners = {UpRunner(1), UpRunner(1), UpRunner(0)};
  runners[1].resident = {"aa"};
  EXPECT_EQ(PickMostIdle(runners, {.adapter_hash = "aa"}), 2);
  runners[2].load.requests_running = 1;
  EXPECT_EQ(PickMostIdle(runners, {.adapter_hash = "aa"}), 1);
  EXPECT_EQ(PickMostIdle(runners, {}), 0);
}

TEST(RunnerViewTest, LeavesOutWhoCannot) {
  std::vector<RunnerView> runners = {UpRunner(0), UpRunner(1), UpRunner(2), UpRunner(3)};
  runners[0].is_up = false;
  runners[1].draining = true;
  EXPECT_EQ(PickMostIdle(runners, {}), 2);
  runners[2].arithmetic_id = "hopper";
  EXPECT_EQ(PickMostIdle(runners, {.pool = "cpu"}), 3);
  runners[3].adapters.clear();
  EXPECT_EQ(PickMostIdle(runners, {.adapter_hash = "aa", .pool = "cpu"}), -1);
  EXPECT_EQ(PickMostIdle(runners, {.adapter_hash = "aa"}), 2);
  const size_t refused[] = {2};
  EXPECT_EQ(PickMostIdle(runners, {.adapter_hash = "aa", .refused = refused}), -1);
}

TEST(RunnerViewTest, RoomIsPagesThatNobodyUsesOrIsPromised) {
  std::vector<RunnerView> runners = {UpRunner(0), UpRunner(1), UpRunner(2)};
  EXPECT_EQ(PickWithRoom(runners, {}, 1), -1) << "they do not say";
  for (RunnerView& runner : runners) {
    runner.page_tokens = 16;
    runner.load.pages_free = 10;
  }
  EXPECT_EQ(PickWithRoom(runners, {}, 160), 0);
  EXPECT_EQ(PickWithRoom(runners, {}, 161), -1);
  runners[0].pages_sent = 1;
  EXPECT_EQ(PickWithRoom(runners, {}, 145), 1);
  runners[1].load.requests_waiting = 1;
  EXPECT_EQ(PickWithRoom(runners, {}, 145), 2);
  EXPECT_EQ(PickWithRoom(runners, {.pool = "hopper"}, 145), -1);
}

}  // namespace
}  // namespace graft
