// What a simulation comes to: latencies, how many kept to the bound on a token's time, loads and
// the runners' time, as JSON. Pure functions.
#pragma once

#include <vector>

#include "base/json.h"
#include "sim/cluster_simulation.h"

namespace graft {

struct Percentiles {
  double mean = 0.0, p50 = 0.0, p90 = 0.0, p95 = 0.0, p99 = 0.0, max = 0.0;
};

// Nearest-rank percentiles; zeros for no values.
Percentiles ComputePercentiles(std::vector<double> values);

// The share of latencies within the bound; 0 of none.
double SloAttainment(const std::vector<double>& latencies_ms, double slo_ms);

// In milliseconds, of what arrived after the warm time.
OrderedJson SimulationJson(const SimWorkload& workload, const SimClusterOptions& options,
                           const SimResult& result);

}  // namespace graft
