// Waist 2, the interface of what runs a StepPlan.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>

#include "step/bridge_rates.h"
#include "step/mask_source.h"
#include "step/step_plan.h"
#include "step/step_result.h"

namespace graft {

// What the executor was built for; the engine plans within it.
struct ExecutorLimits {
  int32_t sequences_max = 0;       // sequence slots
  int32_t step_tokens_max = 0;     // rows of one step
  int32_t draws_max = 0;           // tokens drawn in one step; 0: one for each sequence, no drafts
  int32_t draft_tokens_max = 0;    // of a sequence in one step
  int32_t context_tokens_max = 0;  // positions of one sequence
  int32_t num_pages = 0;           // of the page pool
  int64_t page_bytes = 0;          // of the page pool; 0: adapters have no pages here
  int32_t page_tokens = 0;         // positions per page
  int32_t vocab_size = 0;
  int32_t adapters_max = 0;  // adapter slots: resident at once
  bool runs_ahead = false;   // takes plans that are `ahead`
};

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Engine thread only. A plan within the limits fails for a lack of memory alone, which costs that
// step (StepResult::status); a device fault ends the process.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual const ExecutorLimits& limits() const = 0;
  // What StepPlan::bridges costs here.
  virtual BridgeRates bridge_rates() const { return {}; }
  // Work that Begin does, at most once a step, while it waits before it can launch the rest. {}:
  // none. To be set while no step runs.
  virtual void SetWorkWhileBlocked(std::function<void()> /*work*/) {}
  // What sequences with masks may draw; null: plans have no masks. To be set while no step runs.
  virtual void SetMasks(MaskSource* /*masks*/) {}
  // Begins the step. An executor on a GPU returns while the step runs, so that the caller can work
  // meanwhile. The plan must not change until Finish. One step runs at a time, except that a plan
  // that is `ahead` follows the one that runs.
  virtual void Begin(const StepPlan& plan) = 0;
  // The step before a plan that was `ahead` is booked, so that masks can be asked for. Called once
  // for such a plan, before it is waited for.
  virtual void Continue() {}
  // Waits for the step begun first, `timeout_ns` at most (kNever: without limit; 0 or less: it only
  // looks). False: `interrupted` is true, or the time has passed. An executor that computes in
  // Finish has nothing to wait for. May be called any number of times between Begin and Finish.
  virtual bool Wait(const std::atomic<bool>& /*interrupted*/, int64_t /*timeout_ns*/) {
    return true;
  }
  // Waits for the step begun first and returns what it drew. Once per Begin.
  virtual StepResult Finish() = 0;
  // Whether other work gets the device right after the step that runs, so that beginning the next
  // step ahead would gain nothing.
  virtual bool IsFollowed() const { return false; }
  // No step comes until a request does: work beside the steps may have the device.
  virtual void OnIdle() {}

  StepResult Run(const StepPlan& plan) {
    Begin(plan);
    return Finish();
  }
};

}  // namespace graft
