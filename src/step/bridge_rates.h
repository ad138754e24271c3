// Waist 2, beside Executor: what it takes to compute for adapters on their way (StepPlan::bridges),
// as it was measured at start. Plain data.
#pragma once

#include <cstdint>
#include <vector>

namespace graft {

struct BridgeRates {
  struct OfRank {
    int32_t rank = 0;
    // One worker's nanoseconds per byte of a layer's matrices: to read them, and for a row of x.
    double read_ns = 0.0;
    double row_ns = 0.0;
  };

  std::vector<OfRank> ranks;  // by rising rank; empty: steps wait, whatever a plan says
  int32_t num_workers = 0;
};

}  // namespace graft
