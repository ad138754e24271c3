#include "base/turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace graft {
namespace {

constexpr int64_t kMs = 1'000'000;

// One thread, so that nothing in these tests waits for another one.
void Step(Turns& turns, ManualClock& clock, int64_t ns) {
  turns.BeginStep();
  clock.AdvanceNs(ns);
  turns.EndStep();
}
void RunPiece(Turns& turns, ManualClock& clock, int64_t ns) {
  const Piece piece(&turns);
  clock.AdvanceNs(ns);
}

TEST(TurnsTest, WithoutStepsPiecesNeverWait) {
  ManualClock clock;
  int64_t told_ns = 0;
  Turns turns(0.0, clock, [&told_ns](int64_t ns) { told_ns += ns; });
  for (int i = 0; i < 3; ++i) RunPiece(turns, clock, 5 * kMs);
  EXPECT_EQ(told_ns, 15 * kMs);
  Step(turns, clock, kMs);
  turns.OnIdle();
  RunPiece(turns, clock, kMs);
  EXPECT_EQ(told_ns, 16 * kMs);
}

TEST(TurnsTest, AShareOfTheTimeIsOwedAfterAStep) {
  ManualClock clock;
  Turns turns(0.5, clock);
  Step(turns, clock, 10 * kMs);
  RunPiece(turns, clock, 4 * kMs);
  RunPiece(turns, clock, 4 * kMs);
  RunPiece(turns, clock, 4 * kMs);  // 10 were owed: 2 too many
  std::atomic<bool> ran{false};
  std::thread waiting([&] {
    const Piece piece(&turns);
    ran = true;
  });
  Step(turns, clock, 2 * kMs);  // pays what was taken too much, and owes nothing
  EXPECT_FALSE(ran);
  Step(turns, clock, 2 * kMs);
  waiting.join();
  EXPECT_TRUE(ran);
}

TEST(TurnsTest, WhatNobodyAskedForIsNotSavedUp) {
  ManualClock clock;
  Turns turns(0.5, clock);
  for (int i = 0; i < 10; ++i) Step(turns, clock, 10 * kMs);
  RunPiece(turns, clock, 11 * kMs);
  std::atomic<bool> ran{false};
  std::thread waiting([&] {
    const Piece piece(&turns);
    ran = true;
  });
  Step(turns, clock, kMs / 2);
  EXPECT_FALSE(ran);
  turns.OnIdle();
  waiting.join();
}

// What a piece takes before the first request comes is not charged.
TEST(TurnsTest, AStepWaitsForThePieceThatRunsAndIdleTimeIsFree) {
  ManualClock clock;
  Turns turns(0.5, clock);
  turns.BeginPiece();
  clock.AdvanceNs(100 * kMs);
  std::atomic<bool> stepped{false};
  std::thread step([&] {
    turns.BeginStep();
    stepped = true;
    turns.EndStep();
  });
  EXPECT_FALSE(stepped);
  turns.EndPiece();
  step.join();
  EXPECT_TRUE(stepped);
  turns.OnIdle();
  RunPiece(turns, clock, kMs);
}

// Threads that want the same: each gets on, and never both at once.
TEST(TurnsTest, StepsAndPiecesNeverRunAtOnce) {
  Turns turns(0.3, SteadyClock::Get());
  std::atomic<int> inside{0}, most{0};
  const auto enter = [&] {
    const int now = ++inside;
    if (now > most) most = now;
  };
  std::atomic<bool> steps_end{false};
  int pieces = 0;
  std::thread training([&] {
    do {
      const Piece piece(&turns);
      enter();
      ++pieces;
      --inside;
    } while (!steps_end);
  });
  for (int i = 0; i < 2000; ++i) {
    turns.BeginStep();
    enter();
    --inside;
    turns.EndStep();
  }
  steps_end = true;
  turns.OnIdle();
  training.join();
  EXPECT_EQ(most, 1);
  EXPECT_GT(pieces, 0);
}

}  // namespace
}  // namespace graft
