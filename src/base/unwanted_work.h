// Whether the work that a thread does for a request is still wanted: the client may have left, or
// the server may be ending. The thread that waits for the work says so by a flag (WatchedWork).
// Long work asks WorkIsUnwanted() from time to time and gives up with the Status of UnwantedWork(),
// without knowing what it works for. Work without a WatchedWork is always wanted. Any thread, each
// by itself: a thread that does a part of another's work takes over its flag.
#pragma once

#include <atomic>
#include <utility>

#include "base/status.h"

namespace graft {

// While it lives, what this thread does is unwanted from when the flag is true, which outlives it.
class WatchedWork {
 public:
  explicit WatchedWork(const std::atomic<bool>& is_unwanted) : WatchedWork(&is_unwanted) {}
  // Null: it is wanted.
  explicit WatchedWork(const std::atomic<bool>* is_unwanted)
      : outer_(std::exchange(watched_, is_unwanted)) {}
  ~WatchedWork() { watched_ = outer_; }
  WatchedWork(const WatchedWork&) = delete;
  WatchedWork& operator=(const WatchedWork&) = delete;

  // This thread's flag at the moment; null: there is none.
  static const std::atomic<bool>* flag() { return watched_; }

 private:
  friend bool WorkIsUnwanted();
  inline static thread_local const std::atomic<bool>* watched_ = nullptr;
  const std::atomic<bool>* outer_;
};

// Costs about as much as reading a variable.
inline bool WorkIsUnwanted() {
  return WatchedWork::watched_ != nullptr && WatchedWork::watched_->load(std::memory_order_relaxed);
}

// The end of such work. Only a log shows it.
inline Status UnwantedWork() { return CancelledError("nobody waits for this any more"); }

}  // namespace graft
