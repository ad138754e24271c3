#include "sim/offline_bound.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace graft {
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
