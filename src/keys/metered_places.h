// Counts places that requests take and give back, and tells when one that found too few should come
// back, by the pace at which they became free while they were scarce. For the holder of a lock.
#pragma once

#include <cstdint>

#include "request/place_schedule.h"

namespace graft {

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

}  // namespace graft
