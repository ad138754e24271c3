// Turns: a device's kernel threads, taken in turn by a server's steps and by what works beside them
// in small pieces. A step waits for the piece that runs, and for those that are owed from the step
// before. While steps run, pieces take the share of the time that they may; while none do, all of
// it. Thread-safe: steps come from one thread, pieces from another.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "base/clock.h"

namespace graft {

class Turns {
 public:
  // `share`: of the time while steps run, from 0 (none) to below 1. `on_piece`, which may be empty,
  // is told how long each piece took, on the pieces' thread.
  Turns(double share, const Clock& clock, std::function<void(int64_t ns)> on_piece = {});

  // Around each step.
  void BeginStep();
  void EndStep();
  // There is no step until somebody comes.
  void OnIdle();

  // Around each piece. A piece waits until it may run.
  void BeginPiece();
  void EndPiece();
  // Between two pieces.
  void Pause() {
    EndPiece();
    BeginPiece();
  }

  double share() const { return share_; }

 private:
  bool MayRunPiece() const { return !step_runs_ && (!is_busy_ || owed_ns_ > 0); }

  const double share_;
  const Clock& clock_;
  const std::function<void(int64_t ns)> on_piece_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_busy_ = false;  // steps follow each other
  bool step_runs_ = false;
  bool piece_runs_ = false;
  bool piece_waits_ = false;
  // What pieces may take before the next step; below 0: what they took too much.
  int64_t owed_ns_ = 0;
  int64_t step_begin_ns_ = 0;
  int64_t piece_begin_ns_ = 0;
  int64_t busy_since_ns_ = 0;
};

// A piece for as long as it lives.
class Piece {
 public:
  explicit Piece(Turns& turns) : turns_(turns) { turns_.BeginPiece(); }
  ~Piece() { turns_.EndPiece(); }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;

 private:
  Turns& turns_;
};

}  // namespace graft
