// Waist 1, beside TokenEvent: what an engine tells of its steps, for a runner to pass on to
// frontends. Plain data.
#pragma once

#include <span>

#include "request/request.h"

namespace graft {

struct StepNews {
  // The requests in the step that have drawn nothing in this engine so far, sorted. Reported
  // whenever the list has changed. New requests are reported before the step begins, so that they
  // are known if the step kills the engine.
  std::span<const RequestId> undrawn;
  // Requests that gave their pages to older ones since the last news, and are in line again.
  std::span<const RequestId> evicted;
};

}  // namespace graft
