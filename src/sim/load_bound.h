// Bounds that no placement policy can beat in a simulated cluster. LoadBound: the fewest loads of
// adapters per request, and the least p99 of the time to the first token, if the memories of hosts
// and devices cannot hold all adapters. It assumes that all requests are known beforehand, that the
// runners' memories are one pool, and that a request waits only for the fetch of its adapter.
// LeastRunnerSeconds: the least time that runners must be up. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cluster_simulation.h"

namespace graft {

// By request, whether its adapter must be loaded for it. The adapters that are asked for again
// soonest stay (Belady, 1966), and the one loaded last need not be among them.
std::vector<bool> FewestLoads(std::span<const SimRequest> requests, int64_t places);

struct LoadBound {
  double loads_a_request = 0.0;
  // Those requests wait for a fetch each, and no policy chooses how long fetches take.
  double first_token_p99_ms = 0.0;
};
// The bound for requests that arrive after the warm time; zeros where fetches take no time.
LoadBound LoadBoundOf(const SimWorkload& workload, const SimClusterOptions& options);

// The least runner-seconds, starts included, with which each request can come and end when it did.
// At any time there is a runner for each `batch_max` requests in flight. The n-th runner is needed
// while more than n - 1 runners' requests are there. It is kept over a pause that is shorter than a
// start. Refused requests do not count.
double LeastRunnerSeconds(const SimWorkload& workload, const std::vector<SimOutcome>& outcomes,
                          int32_t batch_max, double startup_seconds);

}  // namespace graft
