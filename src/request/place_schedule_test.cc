#include "request/place_schedule.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// Places that become free once in `interval_ns`, so many times.
void FreeAt(int64_t interval_ns, int times, PlaceSchedule* schedule, PlaceSchedule::Turn* turn,
            int64_t* now_ns) {
  for (int i = 0; i < times; ++i) {
    *now_ns += interval_ns;
    schedule->Freed(1, turn, *now_ns);
  }
}

TEST(PlaceScheduleTest, EachIsToldTheNextPlaceInTurn) {
  PlaceSchedule schedule;
  PlaceSchedule::Turn turn;
  int64_t now_ns = 5 * kSecond;
  schedule.SetScarce(true, now_ns);
  FreeAt(3 * kSecond, 50, &schedule, &turn, &now_ns);
  for (const int turn_s : {3, 6, 9}) {
    EXPECT_NEAR(schedule.RetryAfterS(1, 1.0, &turn, now_ns), turn_s, 1);
  }
  EXPECT_NEAR(schedule.RetryAfterS(4, 1.0, &turn, now_ns), 21, 3) << "four more";
  EXPECT_EQ(schedule.RetryAfterS(1000, 1.0, &turn, now_ns), PlaceSchedule::kRetryAfterMax);
  FreeAt(3 * kSecond, 20, &schedule, &turn, &now_ns);
  EXPECT_NEAR(schedule.RetryAfterS(1, 1.0, &turn, now_ns), 3, 1) << "a minute later";
}

TEST(PlaceScheduleTest, TimeThatIsNotScarceIsNotCounted) {
  PlaceSchedule schedule;
  PlaceSchedule::Turn turn;
  int64_t now_ns = 0;
  schedule.SetScarce(true, now_ns);
  FreeAt(2 * kSecond, 50, &schedule, &turn, &now_ns);
  schedule.SetScarce(false, now_ns);
  FreeAt(500 * kSecond, 5, &schedule, &turn, &now_ns);
  schedule.SetScarce(true, now_ns);
  EXPECT_NEAR(schedule.RetryAfterS(1, 1.0, &turn, now_ns), 2, 1);
}

TEST(PlaceScheduleTest, WhereNothingBecomesFreeTheWaitGrows) {
  PlaceSchedule schedule;
  PlaceSchedule::Turn turn;
  schedule.SetScarce(true, 0);
  EXPECT_EQ(schedule.RetryAfterS(1, 1.0, &turn, 0), 1);
  EXPECT_NEAR(schedule.RetryAfterS(1, 1.0, &turn, 8 * kSecond), 7, 2);
  const int32_t late = schedule.RetryAfterS(1, 1.0, &turn, 100 * kSecond);
  EXPECT_GE(late, 15);
  EXPECT_LE(late, PlaceSchedule::kRetryAfterMax);

  PlaceSchedule::Turn of_many;
  PlaceSchedule many;
  many.SetScarce(true, 0);
  EXPECT_NEAR(many.RetryAfterS(500, 1.0, &of_many, 8 * kSecond), 7, 2)
      << "as long, whatever num is";
}

}  // namespace
}  // namespace graft
