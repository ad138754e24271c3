// The metrics page under vLLM's names, which gateways, autoscalers and dashboards read. Pure; any
// thread.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <string>
#include <vector>

#include "dashboard/models_in_flight.h"

namespace graft {

struct VllmFacts {
  std::string base_model;
  int32_t adapters_max = 0;  // in a batch at once; a frontend's runners say theirs
  int64_t unix_time = 0;
  std::vector<std::string> text_routes;  // labels of the requests for text
};

// Families with vLLM's names, made of the server's own: what those do not tell is left out.
std::vector<prometheus::MetricFamily> VllmFamilies(
    const std::vector<prometheus::MetricFamily>& families, const ModelsInFlight& models,
    const VllmFacts& facts);

}  // namespace graft
