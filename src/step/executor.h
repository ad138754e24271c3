// Waist 2, the interfaces: whoever runs a StepPlan, and whoever holds adapters' bytes.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "step/step_plan.h"
#include "step/step_result.h"

namespace graft {

// What the executor was built for; the engine plans within it.
struct ExecutorLimits {
  int32_t sequences_max = 0;       // sequence slots
  int32_t step_tokens_max = 0;     // rows of one step
  int32_t context_tokens_max = 0;  // positions of one sequence
  int32_t num_pages = 0;           // of the page pool
  int32_t page_tokens = 0;         // positions per page
  int32_t vocab_size = 0;
  int32_t adapters_max = 0;  // adapter slots
};

// Engine thread only. A plan within the limits cannot fail; a device fault ends the process.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual const ExecutorLimits& limits() const = 0;
  // Begins the step; an executor on a GPU returns while it runs, so that the caller can work beside
  // it. The plan stays as it is until Finish.
  virtual void Begin(const StepPlan& plan) = 0;
  // Waits for the step begun and returns what it drew. Once per Begin.
  virtual StepResult Finish() = 0;

  StepResult Run(const StepPlan& plan) {
    Begin(plan);
    return Finish();
  }
};

struct AdapterFacts {
  std::string hash;
  std::string base_model;
  int32_t rank_max = 0;
  int64_t bytes = 0;
};

// The bytes behind adapter slots. Any thread but one call per slot at a time; a slot named by a
// plan in flight is neither loaded into nor freed (the engine's leases see to that).
class AdapterBackend {
 public:
  virtual ~AdapterBackend() = default;
  // The content hash of the PEFT folder without loading it.
  virtual Result<std::string> Hash(const std::string& path) = 0;
  // Reads, checks and self-tests the PEFT folder, and makes it servable from `slot`.
  virtual Result<AdapterFacts> Load(AdapterSlot slot, const std::string& path) = 0;
  virtual void Free(AdapterSlot slot) = 0;
};

}  // namespace graft
