// Places that requests take and give back, and when one that found too few should come back, by the
// pace at which they became free while they were scarce.
#pragma once

#include <cstdint>
#include <mutex>

#include "base/clock.h"
#include "request/place_schedule.h"

namespace graft {

// For the holder of a lock.
class MeteredPlaces {
 public:
  int64_t num_taken() const { return num_taken_; }
  // `places_max` <= 0: without a limit nothing is scarce.
  void Take(int64_t num, int64_t places_max, int64_t now_ns) {
    num_taken_ += num;
    schedule_.SetScarce(places_max > 0 && 2 * num_taken_ > places_max, now_ns);
  }
  void Free(int64_t num, int64_t places_max, int64_t now_ns) {
    schedule_.Freed(static_cast<double>(num), &turn_, now_ns);
    Take(-num, places_max, now_ns);
  }
  // Seconds until `num` more are free; see PlaceSchedule.
  int32_t RetryAfterS(int64_t num, int64_t now_ns) {
    return schedule_.RetryAfterS(static_cast<double>(num), /*share=*/1.0, &turn_, now_ns);
  }

 private:
  int64_t num_taken_ = 0;
  PlaceSchedule schedule_;
  PlaceSchedule::Turn turn_;
};

// At most so many of them. Thread-safe.
class SharedPlaces {
 public:
  SharedPlaces(int64_t places_max, const Clock& clock) : clock_(clock), places_max_(places_max) {}

  void SetMax(int64_t places_max) {
    std::lock_guard lock(mutex_);
    places_max_ = places_max;
  }
  int64_t places_max() const {
    std::lock_guard lock(mutex_);
    return places_max_;
  }
  int64_t num_taken() const {
    std::lock_guard lock(mutex_);
    return places_.num_taken();
  }
  // So many are taken now, or -1: there are too few.
  int64_t TryTake(int64_t num) {
    std::lock_guard lock(mutex_);
    if (places_.num_taken() + num > places_max_) return -1;
    places_.Take(num, places_max_, clock_.NowNs());
    return places_.num_taken();
  }
  // Of those whose number is bounded elsewhere.
  void Take(int64_t num) {
    std::lock_guard lock(mutex_);
    places_.Take(num, places_max_, clock_.NowNs());
  }
  void Free(int64_t num) {
    std::lock_guard lock(mutex_);
    places_.Free(num, places_max_, clock_.NowNs());
  }
  // Gives `held` back, which were taken in vain and say nothing of the pace; seconds until there
  // are `num` for whoever held them.
  int32_t RetryAfterS(int64_t held, int64_t num) {
    std::lock_guard lock(mutex_);
    const int64_t now_ns = clock_.NowNs();
    places_.Take(-held, places_max_, now_ns);
    const int64_t missing = places_.num_taken() + num - places_max_;
    return missing > 0 ? places_.RetryAfterS(missing, now_ns) : 1;
  }

 private:
  const Clock& clock_;
  mutable std::mutex mutex_;
  int64_t places_max_;
  MeteredPlaces places_;
};

}  // namespace graft
