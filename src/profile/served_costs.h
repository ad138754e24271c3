// Measures ServedCosts, the time that serving adds to the executor's steps on this machine. A
// server, or runners and frontends, are started, and one client asks them. The part of their time
// that the executor's costs do not explain is what serving costs. Main thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "placement/cost_model.h"

namespace graft {

// Requests that are timed by their tokens: the prompt is short, so that all draw at once.
inline constexpr int32_t kServedPrompt = 8;
inline constexpr int32_t kServedOutput = 64;
// Tokens of requests that are timed by their first one: while it is on its way the runner computes
// further ones, on cores that the way needs, too.
inline constexpr int32_t kServedFirst = 8;

struct ServedCostsOptions {
  std::string model;  // HF folder
  // Arguments of `graft runner`, or serve, besides the model and the port.
  std::vector<std::string> runner_arguments;
  int32_t vocab_size = 0;
  int num_runners = 1;       // one to all of them compute at once; 1: a server, without a frontend
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
