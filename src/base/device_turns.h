// DeviceTurns: a device that works while its callers go on, such as a GPU, shared by a server's
// steps and by other work in small pieces. Steps and pieces are launched one at a time, at any
// moment, and run in the order of their launches, so that the device does not stand still between
// them. At most one piece is under way. While steps follow each other, pieces take their share of
// the time (TurnAccount); otherwise they take all of it. Thread-safe: steps come from one thread,
// pieces from another.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "base/clock.h"
#include "base/turns.h"

namespace graft {

// The order of the two on the device. Calls come one at a time, but for WaitForPiece.
class TurnMarks {
 public:
  virtual ~TurnMarks() = default;
  // What steps launch from now on runs behind the last piece.
  virtual void BeginStep() = 0;
  // All of the step is launched.
  virtual void EndStep() = 0;
  // What pieces launch from now on runs behind the last step.
  virtual void BeginPiece() = 0;
  virtual void EndPiece() = 0;
  // Waits until the device has done the last piece. How long it took, by the device's clock.
  virtual int64_t WaitForPiece() = 0;
};

class DeviceTurns {
 public:
  // Borrows marks and clock. `share` and `on_piece` as for Turns, by the device's clock.
  DeviceTurns(double share, TurnMarks& marks, const Clock& clock,
              std::function<void(int64_t ns)> on_piece = {});

  // Around the launching of a step, or of the rest of one.
  void BeginStep();
  void EndStep();
  // The device has done a step, and took so long for it. Returns what it took for pieces since the
  // last call.
  int64_t OnStepDone(int64_t ns);
  // No step follows until a request comes.
  void OnIdle();
  // A piece is on its way: a step that is launched once the last one has ended is early enough.
  bool has_piece() const;
  // Steps follow each other.
  bool is_busy() const;
  double share() const { return account_.share(); }

  // Around the launching of a piece, which waits until it may begin; and EndPiece until the device
  // has done it. Returns how long that took, by the device's clock.
  void BeginPiece();
  int64_t EndPiece();

 private:
  bool MayLaunchPiece() const { return !launches_step_ && (!is_busy_ || account_.owes()); }

  TurnMarks& marks_;
  const Clock& clock_;
  const std::function<void(int64_t ns)> on_piece_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  TurnAccount account_;
  bool is_busy_ = false;  // steps follow each other
  bool launches_step_ = false;
  bool launches_piece_ = false;
  bool has_piece_ = false;
  int64_t busy_since_ns_ = 0;
  int64_t pieces_ns_ = 0;  // since the last step was done
};

}  // namespace graft
