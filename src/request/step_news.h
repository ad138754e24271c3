// Waist 1, beside TokenEvent: what an engine tells of its steps to who serves it to others. Plain
// data.
#pragma once

#include <span>

#include "request/request.h"

namespace graft {

struct StepNews {
  // The requests in the step that have drawn nothing in this engine so far, sorted. Said whenever
  // that is another list than before: newcomers before the step begins, so that it is known of them
  // if it kills the engine.
  std::span<const RequestId> undrawn;
  // Requests that gave their pages to older ones since the last news, and are in line again.
  std::span<const RequestId> evicted;
};

}  // namespace graft
