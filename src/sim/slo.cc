#include "sim/slo.h"

#include <algorithm>

namespace graft {

double SloAttainment(const std::vector<double>& first_token_ms, double slo_ms) {
  if (first_token_ms.empty()) return 0.0;
  const auto met = std::count_if(first_token_ms.begin(), first_token_ms.end(),
                                 [slo_ms](double latency_ms) { return latency_ms <= slo_ms; });
  return static_cast<double>(met) / static_cast<double>(first_token_ms.size());
}

double UserSatisfaction(const std::vector<double>& first_token_ms, double slo_ms) {
  if (first_token_ms.empty()) return 0.0;
  double sum = 0.0;
  for (const double latency_ms : first_token_ms) {
    const double share = std::min(latency_ms / slo_ms, 1.0);
    sum += 1.0 - share * share;
  }
  return sum / static_cast<double>(first_token_ms.size());
}

}  // namespace graft
