// What no placement can beat where adapters are more than the places for them: one that knows all
// requests beforehand, has all runners' places in one pool and never waits for a reader, a place or
// a row. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cluster_simulation.h"

namespace graft {

// By request whether its adapter must be loaded for it: of what was loaded stays what is asked for
// again soonest (Belady, 1966), and what was loaded last need not stay.
std::vector<bool> FewestLoads(std::span<const SimRequest> requests, int64_t places);

struct LoadBound {
  double loads_a_request = 0.0;
  // Those requests wait for a fetch each, whose times nobody chooses.
  double first_token_p99_ms = 0.0;
};
// Of what arrives after the warm time; zeros where fetches take no time.
LoadBound LoadBoundOf(const SimWorkload& workload, const SimClusterOptions& options);

}  // namespace graft
