#include "base/device_turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace graft {
namespace {

constexpr int64_t kOneMs = 1'000'000;

// A device that does each piece, in `piece_ns`, once WaitForPiece is called. Records what runs
// behind what.
class FakeMarks : public TurnMarks {
 public:
  explicit FakeMarks(ManualClock& clock) : clock_(clock) {}

  void BeginStep() override { Enter("s"); }
  void EndStep() override { Leave(); }
  void BeginPiece() override { Enter("p"); }
  void EndPiece() override { Leave(); }
  int64_t WaitForPiece() override {
    if (meanwhile) meanwhile();
    clock_.AdvanceNs(piece_ns);
    return piece_ns;
  }

  std::atomic<int64_t> piece_ns = 0;
  std::function<void()> meanwhile;
  std::string order;  // of what was launched
  std::atomic<int> most = 0;

 private:
  void Enter(const char* what) {
    order += what;
    const int now = ++inside_;
    if (now > most) most = now;
  }
  void Leave() { --inside_; }

  ManualClock& clock_;
  std::atomic<int> inside_ = 0;
};

class DeviceTurnsTest : public testing::Test {
 protected:
  void Launch(DeviceTurns& turns) {
    turns.BeginStep();
    turns.EndStep();
  }
  void RunPiece(DeviceTurns& turns, int64_t ns) {
    marks.piece_ns = ns;
    turns.BeginPiece();
    EXPECT_EQ(turns.EndPiece(), ns);
  }
  // Whether a piece has to wait: another thread asks, and is let in by OnIdle at last.
  bool PieceWaits(DeviceTurns& turns) {
    std::atomic<bool> ran = false;
    std::thread piece([&] {
      turns.BeginPiece();
      ran = true;
      turns.EndPiece();
    });
    for (int i = 0; i < 100 && !ran; ++i) std::this_thread::yield();
    const bool waits = !ran;
    turns.OnIdle();
    piece.join();
    return waits;
  }

  ManualClock clock;
  FakeMarks marks{clock};
};

TEST_F(DeviceTurnsTest, WithoutStepsPiecesNeverWait) {
  int64_t told_ns = 0;
  DeviceTurns turns(0.0, marks, clock, [&told_ns](int64_t ns) { told_ns += ns; });
  for (int i = 0; i < 3; ++i) RunPiece(turns, 5 * kOneMs);
  EXPECT_EQ(told_ns, 15 * kOneMs);
  EXPECT_FALSE(turns.is_busy());
  Launch(turns);
  EXPECT_TRUE(turns.is_busy());
  turns.OnStepDone(kOneMs);
  turns.OnIdle();
  RunPiece(turns, kOneMs);
  EXPECT_EQ(marks.order, "pppsp");
}

TEST_F(DeviceTurnsTest, AStepEarnsPiecesBehindTheNextOne) {
  DeviceTurns turns(0.5, marks, clock);
  Launch(turns);
  EXPECT_EQ(turns.OnStepDone(10 * kOneMs), 0);
  Launch(turns);  // the next one is on its way when the piece comes
  RunPiece(turns, 4 * kOneMs);
  RunPiece(turns, 4 * kOneMs);
  RunPiece(turns, 4 * kOneMs);  // 10 were owed: 2 too many
  EXPECT_EQ(turns.OnStepDone(2 * kOneMs), 12 * kOneMs) << "what pieces took is no step's";
  EXPECT_EQ(marks.order, "ssppp");
  EXPECT_TRUE(PieceWaits(turns)) << "nothing is owed";
}

TEST_F(DeviceTurnsTest, WhatNobodyAskedForIsNotSavedUp) {
  DeviceTurns turns(0.5, marks, clock);
  for (int i = 0; i < 10; ++i) {
    Launch(turns);
    turns.OnStepDone(10 * kOneMs);
  }
  RunPiece(turns, 11 * kOneMs);
  EXPECT_TRUE(PieceWaits(turns));
}

// The time of a piece on its way is not known yet: what the step before it earned pays for it, what
// the step that ends meanwhile earns stays for the next one.
TEST_F(DeviceTurnsTest, APieceOnItsWayLosesNothing) {
  DeviceTurns turns(0.5, marks, clock);
  Launch(turns);
  turns.OnStepDone(10 * kOneMs);
  marks.piece_ns = 10 * kOneMs;
  turns.BeginPiece();
  EXPECT_TRUE(turns.has_piece());
  std::thread step([&] { Launch(turns); });  // waits until all of the piece is launched
  turns.EndPiece();
  step.join();
  EXPECT_FALSE(turns.has_piece());
  EXPECT_EQ(marks.order, "sps");
  EXPECT_TRUE(PieceWaits(turns)) << "what was owed is spent";

  Launch(turns);
  turns.OnStepDone(10 * kOneMs);
  turns.BeginPiece();
  turns.OnStepDone(10 * kOneMs);
  turns.EndPiece();
  RunPiece(turns, 10 * kOneMs);
  EXPECT_TRUE(PieceWaits(turns));
}

// What a piece took before the first request came is not charged.
TEST_F(DeviceTurnsTest, IdleTimeIsFree) {
  DeviceTurns turns(0.5, marks, clock);
  marks.meanwhile = [&] {
    clock.AdvanceNs(100 * kOneMs);
    Launch(turns);
    marks.meanwhile = {};
  };
  marks.piece_ns = kOneMs;
  turns.BeginPiece();
  turns.EndPiece();
  turns.OnStepDone(2 * kOneMs);
  RunPiece(turns, kOneMs);
  EXPECT_TRUE(PieceWaits(turns)) << "1 ms of it was a step's";
}

// Threads that want the same: each gets on, and never are both launched at once.
TEST_F(DeviceTurnsTest, StepsAndPiecesAreNeverLaunchedAtOnce) {
  DeviceTurns turns(0.3, marks, SteadyClock::Get());
  marks.piece_ns = 10;
  std::atomic<bool> steps_end = false;
  int pieces = 0;
  std::thread training([&] {
    do {
      turns.BeginPiece();
      ++pieces;
      turns.EndPiece();
    } while (!steps_end);
  });
  for (int i = 0; i < 2000; ++i) {
    Launch(turns);
    turns.OnStepDone(1000);
  }
  steps_end = true;
  turns.OnIdle();
  training.join();
  EXPECT_EQ(marks.most, 1);
  EXPECT_GT(pieces, 0);
}

}  // namespace
}  // namespace graft
