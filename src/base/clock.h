// Time behind a seam, so that tests can run production code on a virtual clock.
// Now() is monotonic nanoseconds since an arbitrary start. Implementations are thread-safe.
#pragma once

#include <cstdint>

namespace graft {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowNs() const = 0;
};

// The machine's monotonic clock.
class SteadyClock : public Clock {
 public:
  int64_t NowNs() const override;
  // One instance for all callers; it holds no state.
  static SteadyClock& Get();
};

// A clock that moves only when told to. For tests; one thread.
class ManualClock : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_; }
  void AdvanceNs(int64_t ns) { now_ns_ += ns; }

 private:
  int64_t now_ns_ = 0;
};

inline double NsToSeconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// Seconds since 1970-01-01, for OpenAI's `created` fields.
int64_t UnixTimeSeconds();

}  // namespace graft
