// The least time of runners that suffices where all requests are known beforehand. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cluster_simulation.h"

namespace graft {

// The least runner-seconds, starts included, in which each request can come and end when it did:
// at any time there is a runner for each `batch_max` requests in flight. The n-th runner is needed
// while more than n - 1 runners' requests are there, and is kept over a pause that is shorter than
// a start. Requests that were refused count for nothing.
double LeastRunnerSeconds(const SimWorkload& workload, const std::vector<SimOutcome>& outcomes,
                          int32_t batch_max, double startup_seconds);

}  // namespace graft
