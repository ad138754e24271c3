#include "base/device_turns.h"

#include <algorithm>
#include <utility>

namespace graft {

DeviceTurns::DeviceTurns(double share, TurnMarks& marks, const Clock& clock,
                         std::function<void(int64_t ns)> on_piece)
    : marks_(marks), clock_(clock), on_piece_(std::move(on_piece)), account_(share) {}

void DeviceTurns::BeginStep() {
  std::unique_lock lock(mutex_);
  if (!std::exchange(is_busy_, true)) busy_since_ns_ = clock_.NowNs();
  changed_.wait(lock, [this] { return !launches_piece_; });
  launches_step_ = true;
  marks_.BeginStep();
}

void DeviceTurns::EndStep() {
  std::lock_guard lock(mutex_);
  marks_.EndStep();
  launches_step_ = false;
  changed_.notify_all();
}

int64_t DeviceTurns::OnStepDone(int64_t ns) {
  std::lock_guard lock(mutex_);
  account_.OnStep(ns, has_piece_);
  changed_.notify_all();
  return std::exchange(pieces_ns_, 0);
}

void DeviceTurns::OnIdle() {
  std::lock_guard lock(mutex_);
  is_busy_ = false;
  account_.Clear();
  changed_.notify_all();
}

bool DeviceTurns::has_piece() const {
  std::lock_guard lock(mutex_);
  return has_piece_;
}

bool DeviceTurns::is_busy() const {
  std::lock_guard lock(mutex_);
  return is_busy_;
}

void DeviceTurns::BeginPiece() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return MayLaunchPiece(); });
  launches_piece_ = has_piece_ = true;
  marks_.BeginPiece();
}

int64_t DeviceTurns::EndPiece() {
  {
    std::lock_guard lock(mutex_);
    marks_.EndPiece();
    launches_piece_ = false;
    changed_.notify_all();
  }
  const int64_t took_ns = marks_.WaitForPiece();
  {
    std::lock_guard lock(mutex_);
    has_piece_ = false;
    pieces_ns_ += took_ns;
    // What went before the first step came was free.
    if (is_busy_) account_.OnPiece(std::min(took_ns, clock_.NowNs() - busy_since_ns_));
  }
  if (on_piece_) on_piece_(took_ns);
  return took_ns;
}

}  // namespace graft
