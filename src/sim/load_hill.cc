#include "sim/load_hill.h"

#include <cmath>

#include "base/clock.h"

namespace graft {

int64_t RequestsOfHill(double peak_requests_per_second, double seconds) {
  return std::llround(peak_requests_per_second * seconds / 2.0);
}

// By t there have come peak t^2 / seconds of them on the way up; the way down is the same
// backwards.
void BendIntoHill(double peak_requests_per_second, double seconds,
                  std::vector<SimRequest>* requests) {
  const double total = peak_requests_per_second * seconds / 2.0;
  const auto time_of = [&](double count) {
    return std::sqrt(count * seconds / peak_requests_per_second);
  };
  size_t num_kept = 0;
  for (SimRequest& one : *requests) {
    const double count = NsToSeconds(one.arrival_ns);
    if (count >= total) break;
    const double at = count <= total / 2.0 ? time_of(count) : seconds - time_of(total - count);
    one.arrival_ns = std::llround(at * 1e9);
    ++num_kept;
  }
  requests->resize(num_kept);
}

}  // namespace graft
