// A load that rises and falls, as in Punica's Figure 13: arrivals of an even process are bent so
// that their rate climbs from 0 to a peak in the middle, and back. Pure functions.
#pragma once

#include "sim/cluster_simulation.h"

namespace graft {

// Requests that come in so many seconds, at this rate in the middle.
int64_t RequestsOfHill(double peak_requests_per_second, double seconds);

// `requests` come evenly, one a second in the mean. Those that would come after the hill's end are
// left out.
void BendIntoHill(double peak_requests_per_second, double seconds,
                  std::vector<SimRequest>* requests);

}  // namespace graft
