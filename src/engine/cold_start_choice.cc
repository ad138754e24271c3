#include "engine/cold_start_choice.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace graft {
namespace {

// What one more observation leaves of the weight of those before it: the last fifty or so count.
constexpr double kMemory = 0.98;

}  // namespace

void CopyForecast::Ordered(int32_t content, int64_t bytes, int32_t num_layers, int64_t now_ns) {
  if (line_.empty()) begin_ns_ = now_ns;
  line_.push_back({content, bytes, num_layers});
}

void CopyForecast::Ended(int32_t content, int64_t copy_ns, int64_t now_ns) {
  const auto copy = std::find_if(line_.begin(), line_.end(),
                                 [content](const Copy& one) { return one.content == content; });
  CHECK(copy != line_.end()) << "content " << content;
  if (copy_ns > 0) {
    bytes_ = bytes_ * kMemory + static_cast<double>(copy->bytes);
    copy_ns_ = copy_ns_ * kMemory + static_cast<double>(copy_ns);
  }
  if (copy == line_.begin()) begin_ns_ = now_ns;
  line_.erase(copy);
}

std::optional<ArrivalForecast> CopyForecast::Of(int32_t content, int64_t now_ns) const {
  if (bytes_ == 0.0) return std::nullopt;
  // From now on; the first in line has been under way for a while.
  double end_ns = static_cast<double>(begin_ns_ - now_ns);
  for (const Copy& copy : line_) {
    const double begin_ns = std::max(end_ns, 0.0);
    end_ns = std::max(end_ns + static_cast<double>(copy.bytes) * copy_ns_ / bytes_, 0.0);
    if (copy.content == content)
      return ArrivalForecast{begin_ns, end_ns - begin_ns, copy.num_layers};
  }
  return std::nullopt;
}

void StepCost::Observe(int64_t num_rows, int64_t ns) {
  const auto x = static_cast<double>(num_rows);
  const auto y = static_cast<double>(ns);
  weight_ = weight_ * kMemory + 1.0;
  rows_ = rows_ * kMemory + x;
  ns_ = ns_ * kMemory + y;
  rows_rows_ = rows_rows_ * kMemory + x * x;
  rows_ns_ = rows_ns_ * kMemory + x * y;
}

double StepCost::At(int64_t num_rows) const {
  CHECK(is_known());
  const double mean_rows = rows_ / weight_;
  const double mean_ns = ns_ / weight_;
  const double variance = rows_rows_ / weight_ - mean_rows * mean_rows;
  const double covariance = rows_ns_ / weight_ - mean_rows * mean_ns;
  // More rows never take less time; of steps that were all alike nothing else is known.
  double per_row = 0.0;
  if (variance > 1e-6 * mean_rows * mean_rows) per_row = std::max(0.0, covariance / variance);
  // Nor do no rows take less than none.
  per_row = std::min(per_row, mean_ns / mean_rows);
  return mean_ns + per_row * (static_cast<double>(num_rows) - mean_rows);
}

double StallWith(const ColdStartCase& step, const StepCost& steps) {
  const ArrivalForecast& arrival = step.arrival;
  const double step_ns = steps.At(step.num_rows + step.num_rows_joining);
  const double layers = arrival.num_layers;
  // Either the first layer is waited for and the others have come when they are wanted, or the
  // last one is.
  const double by_first = arrival.ahead_ns + arrival.own_ns / layers;
  const double by_last = arrival.ahead_ns + arrival.own_ns - step_ns * (layers - 1) / layers;
  return std::max({step.stall_ns, by_first, by_last});
}

bool BeginsNow(const ColdStartCase& step, const StepCost& steps) {
  const double stall_ns = StallWith(step, steps);
  // Else it joins at the end of the first step after its adapter came; alone it is not kept
  // waiting.
  double later_ns = step.arrival.ahead_ns + step.arrival.own_ns;
  if (step.num_others > 0) {
    const double beside_ns = std::max(1.0, steps.At(step.num_rows) + step.stall_ns);
    later_ns = std::max(1.0, std::ceil(later_ns / beside_ns)) * beside_ns;
  }
  return later_ns - stall_ns >= (stall_ns - step.stall_ns) * step.num_others;
}

}  // namespace graft
