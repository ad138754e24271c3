#include "bench/bench_workload.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "sim/simulated_workload.h"

namespace graft {
namespace {

constexpr double kSkew = 1.5;

}  // namespace

std::vector<int32_t> AssignAdapters(Popularity popularity, int32_t n, int32_t num_adapters,
                                    Random& random) {
  CHECK_GT(num_adapters, 0);
  std::vector<int32_t> adapters(n, 0);
  if (n == 0) return adapters;
  const int32_t num_popular =
      std::min(num_adapters, static_cast<int32_t>(std::ceil(std::sqrt(static_cast<double>(n)))));
  std::vector<double> weights(num_popular);
  for (int32_t i = 0; i < num_popular; ++i) weights[i] = std::pow(kSkew, -i);
  const WeightedPicker popular(weights);
  for (int32_t i = 0; i < n; ++i) {
    switch (popularity) {
      case Popularity::kDistinct:
        adapters[i] = i % num_adapters;
        break;
      case Popularity::kUniform:
        adapters[i] = i % num_popular;
        break;
      case Popularity::kSkewed:
        adapters[i] = popular.Pick(random);
        break;
      case Popularity::kIdentical:
        break;
    }
  }
  return adapters;
}

std::vector<double> ArrivalSeconds(int32_t n, double requests_per_second, Random& random) {
  std::vector<double> arrivals(n, 0.0);
  if (requests_per_second <= 0.0) return arrivals;
  double now = 0.0;
  for (double& arrival : arrivals) {
    now += random.Exponential() / requests_per_second;
    arrival = now;
  }
  return arrivals;
}

std::vector<double> GammaArrivals(double requests_per_second, double cv, double seconds,
                                  Random& random) {
  CHECK(requests_per_second > 0.0 && cv >= 0.0);
  std::vector<double> arrivals;
  const double mean_gap = 1.0 / requests_per_second;
  const double shape = cv > 0.0 ? 1.0 / (cv * cv) : 0.0;
  double now = 0.0;
  for (;;) {
    now += cv > 0.0 ? DrawGamma(shape, random) * mean_gap / shape : mean_gap;
    if (now >= seconds) return arrivals;
    arrivals.push_back(now);
  }
}

std::vector<double> PowerLawWeights(int32_t n, double alpha) {
  CHECK(n > 0 && alpha > 0.0);
  std::vector<double> weights(static_cast<size_t>(n));
  double below = 0.0;  // the distribution function at i / n
  for (int32_t i = 0; i < n; ++i) {
    const double upto = std::pow(static_cast<double>(i + 1) / n, alpha);
    weights[static_cast<size_t>(i)] = upto - below;
    below = upto;
  }
  std::sort(weights.begin(), weights.end(), std::greater<>());
  return weights;
}

std::vector<TraceRequest> ScaleTrace(std::vector<TraceRequest> trace, double requests_per_second,
                                     double seconds) {
  if (trace.empty()) return trace;
  // The rate of the part that is taken, not of the whole: services have quiet hours.
  const auto wanted = static_cast<size_t>(std::max(1.0, requests_per_second * seconds));
  trace.resize(std::min(trace.size(), wanted));
  const double last = trace.back().arrival_seconds;
  const double span = static_cast<double>(trace.size()) / requests_per_second;
  for (TraceRequest& request : trace) {
    request.arrival_seconds = last > 0.0 ? request.arrival_seconds / last * span : 0.0;
  }
  return trace;
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
