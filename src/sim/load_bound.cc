#include "sim/load_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace graft {

std::vector<bool> FewestLoads(std::span<const SimRequest> requests, int64_t places) {
  constexpr int64_t kNeverAgain = std::numeric_limits<int64_t>::max();
  int32_t largest = 0;
  for (const SimRequest& one : requests) largest = std::max(largest, one.adapter);
  std::vector<int64_t> next_of(static_cast<size_t>(largest) + 1, kNeverAgain);
  std::vector<int64_t> next(requests.size());
  for (size_t i = requests.size(); i-- > 0;) {
    if (requests[i].adapter == kBaseModel) continue;
    next[i] =
        std::exchange(next_of[static_cast<size_t>(requests[i].adapter)], static_cast<int64_t>(i));
  }
  std::vector<bool> loads(requests.size(), false);
  std::set<std::pair<int64_t, int32_t>> held;  // by when they are asked for next
  for (size_t i = 0; i < requests.size(); ++i) {
    const int32_t adapter = requests[i].adapter;
    if (adapter == kBaseModel) continue;
    loads[i] = held.erase({static_cast<int64_t>(i), adapter}) == 0;
    held.emplace(next[i], adapter);
    if (std::ssize(held) > places) held.erase(std::prev(held.end()));
  }
  return loads;
}

LoadBound LoadBoundOf(const SimWorkload& workload, const SimClusterOptions& options) {
  const SimRunnerOptions& runner = options.runner;
  if (runner.loader.host_adapters == 0) return {};
  // A device may hold what the host's memory has let go.
  const int64_t places = int64_t{options.num_runners} * (int64_t{runner.limits.adapters_max} +
                                                         int64_t{runner.loader.host_adapters});
  const std::vector<bool> loads = FewestLoads(workload.requests, places);
  int64_t num_loads = 0, num_requests = 0;
  for (size_t i = 0; i < loads.size(); ++i) {
    if (NsToSeconds(workload.requests[i].arrival_ns) < options.warm_seconds) continue;
    ++num_requests;
    num_loads += loads[i] ? 1 : 0;
  }
  LoadBound bound;
  if (num_requests == 0) return bound;
  bound.loads_a_request = static_cast<double>(num_loads) / static_cast<double>(num_requests);
  constexpr double kLate = 0.01;  // of all requests
  if (bound.loads_a_request <= kLate) return bound;
  std::vector<double> fetch_ms = workload.fetch_ms;
  std::sort(fetch_ms.begin(), fetch_ms.end());
  // The one of which so many are no slower, as ComputePercentiles takes it.
  const double rank = (1.0 - kLate / bound.loads_a_request) * static_cast<double>(fetch_ms.size());
  const auto above = static_cast<size_t>(std::max(1.0, std::ceil(rank)));
  bound.first_token_p99_ms = fetch_ms[std::min(above, fetch_ms.size()) - 1];
  return bound;
}

namespace {

// The time of one runner.
struct RunnerTime {
  double seconds = 0.0;  // of those that are over, with their starts
  int64_t since_ns = -1;
  int64_t until_ns = -1;  // -1: it is needed now
};

}  // namespace

double LeastRunnerSeconds(const SimWorkload& workload, const std::vector<SimOutcome>& outcomes,
                          int32_t batch_max, double startup_seconds) {
  CHECK_EQ(workload.requests.size(), outcomes.size());
  std::vector<std::pair<int64_t, int32_t>> changes;  // when, and by how many; ends come first
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].is_refused) continue;
    changes.emplace_back(workload.requests[i].arrival_ns, 1);
    changes.emplace_back(outcomes[i].end_ns, -1);
  }
  std::sort(changes.begin(), changes.end());
  std::vector<RunnerTime> runners;
  const auto book = [&](RunnerTime& one) {
    one.seconds += startup_seconds + NsToSeconds(one.until_ns - one.since_ns);
  };
  int64_t num_requests = 0;
  size_t num_needed = 0;
  for (const auto& [ns, change] : changes) {
    num_requests += change;
    const auto needed = static_cast<size_t>((num_requests + batch_max - 1) / batch_max);
    for (; num_needed > needed; --num_needed) runners[num_needed - 1].until_ns = ns;
    for (; num_needed < needed; ++num_needed) {
      if (num_needed == runners.size()) runners.emplace_back();
      RunnerTime& one = runners[num_needed];
      const bool is_kept = one.until_ns >= 0 && NsToSeconds(ns - one.until_ns) <= startup_seconds;
      if (one.until_ns >= 0 && !is_kept) book(one);
      if (!is_kept) one.since_ns = ns;
      one.until_ns = -1;
    }
  }
  double sum = 0.0;
  for (RunnerTime& one : runners) {
    book(one);
    sum += one.seconds;
  }
  return sum;
}

}  // namespace graft
