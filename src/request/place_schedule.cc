#include "request/place_schedule.h"

#include <algorithm>
#include <cmath>

namespace graft {
namespace {

// Scarce time after which what was measured counts a third.
constexpr double kMemoryS = 30.0;

}  // namespace

void PlaceSchedule::AdvanceTo(int64_t now_ns) {
  if (is_scarce_) {
    const double seconds = static_cast<double>(now_ns - time_ns_) * 1e-9;
    const double kept = std::exp(-seconds / kMemoryS);
    scarce_s_ += seconds;
    recent_s_ = recent_s_ * kept + kMemoryS * (1.0 - kept);
    num_freed_ *= kept;
    scarce_until_ns_ = now_ns;
  }
  time_ns_ = now_ns;
}

void PlaceSchedule::SetScarce(bool is_scarce, int64_t now_ns) {
  AdvanceTo(now_ns);
  is_scarce_ = is_scarce;
}

double PlaceSchedule::FreedOf(const Turn& turn) const {
  return turn.num_freed * std::exp((turn.counted_s - scarce_s_) / kMemoryS);
}

void PlaceSchedule::Freed(double num, Turn* turn, int64_t now_ns) {
  AdvanceTo(now_ns);
  // Several that become free at once count, though the last ones of them are scarce no more.
  if (scarce_until_ns_ != now_ns) return;
  num_freed_ += num;
  turn->num_freed = FreedOf(*turn) + num;
  turn->counted_s = scarce_s_;
}

int32_t PlaceSchedule::RetryAfterS(double num, double share, Turn* turn, int64_t now_ns) {
  AdvanceTo(now_ns);
  // Where nothing has become free for a while, it will take about as long again.
  const double own = FreedOf(*turn);
  const double freed = own >= 1.0 ? own : (num_freed_ >= 1.0 ? num_freed_ : num) * share;
  const double wait_ns = num * recent_s_ / freed * 1e9;
  const double promised_ns = static_cast<double>(std::max<int64_t>(turn->next_ns - now_ns, 0));
  const double until_ns = std::min(promised_ns + wait_ns, kRetryAfterMax * 1e9);
  turn->next_ns = now_ns + static_cast<int64_t>(until_ns);
  return std::clamp(static_cast<int32_t>(std::ceil(until_ns * 1e-9)), 1, kRetryAfterMax);
}

}  // namespace graft
