// Whether a runner is emptied so that it may go: its requests are computed anew elsewhere, with the
// tokens that they have drawn (Punica, sections 5.1 and 5.3). That costs the others a prompt for
// each; what it saves is the runner's time until the last of its requests would have ended there.
// Pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "placement/fleet.h"

namespace graft {

// A request on the runner that could go.
struct MovableRequest {
  int64_t tokens = 0;           // prompt and what it has drawn
  int64_t tokens_left_max = 0;  // that it may still draw
  int32_t rank = 0;             // its adapter's largest; 0: base, or it is not known
};

// Whether moving the request costs its client, and the requests beside it, less than half of the
// time that it still takes where it is.
bool IsWorthMoving(const Fleet& fleet, size_t runner, const MovableRequest& request,
                   const CostModel& costs);

// Whether others have places for all of the runner's requests, and moving these costs less than
// half of the time that the runner is free earlier. `is_target`: by runner, whether requests may go
// there.
bool IsWorthEmptying(const Fleet& fleet, size_t runner, std::span<const MovableRequest> requests,
                     std::span<const uint8_t> is_target, const CostModel& costs);

}  // namespace graft
