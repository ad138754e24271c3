#include "base/turns.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace graft {

TurnAccount::TurnAccount(double share) : share_(share) {
  CHECK(share >= 0.0 && share < 1.0) << share;
}

void TurnAccount::OnStep(int64_t ns, bool is_asked) {
  const auto earned_ns = static_cast<int64_t>(static_cast<double>(ns) * share_ / (1.0 - share_));
  owed_ns_ = std::min(owed_ns_ + earned_ns, is_asked ? 2 * earned_ns : earned_ns);
}

Turns::Turns(double share, const Clock& clock, std::function<void(int64_t ns)> on_piece)
    : account_(share), clock_(clock), on_piece_(std::move(on_piece)) {}

void Turns::BeginStep() {
  std::unique_lock lock(mutex_);
  if (!std::exchange(is_busy_, true)) busy_since_ns_ = clock_.NowNs();
  // A waiting piece that is owed time would never find the threads free between two steps.
  changed_.wait(lock, [this] { return !piece_runs_ && !(piece_waits_ && account_.owes()); });
  step_runs_ = true;
  step_begin_ns_ = clock_.NowNs();
}

void Turns::EndStep() {
  std::lock_guard lock(mutex_);
  step_runs_ = false;
  account_.OnStep(clock_.NowNs() - step_begin_ns_);
  changed_.notify_all();
}

void Turns::OnIdle() {
  std::lock_guard lock(mutex_);
  is_busy_ = false;
  account_.Clear();
  changed_.notify_all();
}

void Turns::BeginPiece() {
  std::unique_lock lock(mutex_);
  piece_waits_ = true;
  changed_.wait(lock, [this] { return MayRunPiece(); });
  piece_waits_ = false;
  piece_runs_ = true;
  piece_begin_ns_ = clock_.NowNs();
}

void Turns::EndPiece() {
  int64_t took_ns = 0;
  {
    std::lock_guard lock(mutex_);
    const int64_t now_ns = clock_.NowNs();
    took_ns = now_ns - piece_begin_ns_;
    piece_runs_ = false;
    // What went before the first step came was free.
    if (is_busy_) account_.OnPiece(now_ns - std::max(piece_begin_ns_, busy_since_ns_));
    changed_.notify_all();
  }
  if (on_piece_) on_piece_(took_ns);
}

}  // namespace graft
