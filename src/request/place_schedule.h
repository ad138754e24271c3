// PlaceSchedule says when a caller that found all places taken should come back: when as many
// places as it wants will have become free, and after the callers that were told before it. The
// rate is measured while more than half of the places are taken. Not thread-safe; times are one
// clock's, in nanoseconds.
#pragma once

#include <cstdint>

namespace graft {

class PlaceSchedule {
 public:
  // The state of one party that shares the places.
  struct Turn {
    double num_freed = 0.0;  // of its places; what is long ago counts less
    double counted_s = 0.0;  // the scarce time that `num_freed` is of
    int64_t next_ns = 0;     // up to here what becomes free is promised
  };

  // Whether places are scarce from now on.
  void SetScarce(bool is_scarce, int64_t now_ns);
  // So many of the turn's places are free again.
  void Freed(double num, Turn* turn, int64_t now_ns);
  // Whole seconds, from 1 to kRetryAfterMax, until `num` places are free for this turn, and
  // promises them to it. `share`, in (0, 1], is the turn's share of the places that become free,
  // until its own rate is measured.
  int32_t RetryAfterS(double num, double share, Turn* turn, int64_t now_ns);

  static constexpr int32_t kRetryAfterMax = 60;

 private:
  void AdvanceTo(int64_t now_ns);
  double FreedOf(const Turn& turn) const;

  bool is_scarce_ = false;
  int64_t time_ns_ = 0;
  int64_t scarce_until_ns_ = -1;  // the last instant at which they were
  double scarce_s_ = 0.0;         // of all time
  // What is long ago counts less.
  double recent_s_ = 0.0;
  double num_freed_ = 0.0;
};

}  // namespace graft
