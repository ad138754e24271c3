// Turns: a device's kernel threads, shared by a server's steps and by other work in small pieces. A
// step waits for the piece that runs, and for pieces that are still owed from the step before.
// While steps run, pieces take their share of the time; otherwise they take all of it. Thread-safe:
// steps come from one thread, pieces from another.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "base/clock.h"

namespace graft {

// What pieces may take of the time while steps follow each other: each step earns them
// share / (1 - share) of its own. One thread at a time.
class TurnAccount {
 public:
  // From 0 (nothing) to below 1.
  explicit TurnAccount(double share);

  // Time that no piece asked for is not saved up: it would delay later steps. With `is_asked` a
  // piece of unknown length is on its way, and what the step before earned is kept.
  void OnStep(int64_t ns, bool is_asked = false);
  // For a piece that ran while steps followed each other.
  void OnPiece(int64_t ns) { owed_ns_ -= ns; }
  void Clear() { owed_ns_ = 0; }
  bool owes() const { return owed_ns_ > 0; }
  double share() const { return share_; }

 private:
  const double share_;
  // What pieces may take before the next step; below 0: what they took too much.
  int64_t owed_ns_ = 0;
};

class Turns {
 public:
  // `share` as TurnAccount's. `on_piece`, which may be empty, is told how long each piece took, on
  // the pieces' thread.
  Turns(double share, const Clock& clock, std::function<void(int64_t ns)> on_piece = {});

  // Around each step.
  void BeginStep();
  void EndStep();
  // No step follows until a request comes.
  void OnIdle();

  // Around each piece. A piece waits until it may run.
  void BeginPiece();
  void EndPiece();
  // Between two pieces.
  void Pause() {
    EndPiece();
    BeginPiece();
  }

  double share() const { return account_.share(); }

 private:
  bool MayRunPiece() const { return !step_runs_ && (!is_busy_ || account_.owes()); }

  TurnAccount account_;
  const Clock& clock_;
  const std::function<void(int64_t ns)> on_piece_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_busy_ = false;  // steps follow each other
  bool step_runs_ = false;
  bool piece_runs_ = false;
  bool piece_waits_ = false;
  int64_t step_begin_ns_ = 0;
  int64_t piece_begin_ns_ = 0;
  int64_t busy_since_ns_ = 0;
};

// A piece for as long as it lives. Null: what it covers takes no turn.
class Piece {
 public:
  explicit Piece(Turns* turns) : turns_(turns) {
    if (turns_ != nullptr) turns_->BeginPiece();
  }
  ~Piece() {
    if (turns_ != nullptr) turns_->EndPiece();
  }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;

 private:
  Turns* const turns_;
};

}  // namespace graft
