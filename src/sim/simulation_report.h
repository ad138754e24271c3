// What a simulation comes to: latencies, how many kept to the bound on a token's time, loads and
// the runners' time, as JSON. Pure functions.
#pragma once

#include "base/json.h"
#include "sim/cluster_simulation.h"

namespace graft {

// In milliseconds, of what arrived after the warm time.
OrderedJson SimulationJson(const SimWorkload& workload, const SimClusterOptions& options,
                           const SimResult& result);

}  // namespace graft
