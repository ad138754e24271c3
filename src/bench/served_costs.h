// What serving adds to the executor's steps on this machine: runners and frontends are started, one
// client asks them, and what the costs of the executor do not explain is what serving takes
// (ServedCosts). Main thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "placement/cost_model.h"

namespace graft {

struct ServedCostsOptions {
  std::string model;                          // HF folder
  std::vector<std::string> runner_arguments;  // of `graft runner`, besides the model and the port
  int32_t vocab_size = 0;
  int num_runners = 1;       // that are started; of them one to all compute at once
  std::vector<int> batches;  // requests at once at one runner
  std::vector<int> prompts;  // tokens of them
  int rounds = 5;            // of all measurements, in turns
  uint64_t seed = 1;
};

// A median of all rounds.
struct ServedFigure {
  std::string what;
  double ms = 0.0;
  double executor_ms = 0.0;  // of it, by the executor's costs; 0: not asked
};

struct ServedMeasurement {
  ServedCosts costs;
  std::vector<ServedFigure> figures;
};

// `costs`: the executor's. Whatever was started has ended when it returns.
Result<ServedMeasurement> MeasureServedCosts(const ServedCostsOptions& options,
                                             const CostModel& costs);

}  // namespace graft
