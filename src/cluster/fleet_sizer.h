// How many runners a frontend should have, by what fills those that it has, as of the last second.
// No locks: see the owner.
#pragma once

#include <cstdint>

#include "cluster/remote_runners.h"
#include "placement/fleet.h"
#include "placement/scale_hint.h"

namespace graft {

class FleetSizer {
 public:
  // startup_seconds 0: as long as the slowest runner took. `consolidates`: runners beyond the
  // number wanted are emptied.
  FleetSizer(const ScaleOptions& scale, const CostModel& costs, bool consolidates)
      : scale_(scale), costs_(costs), consolidates_(consolidates) {}

  // Requests that other frontends have on no runner.
  void SetWaitingElsewhere(int64_t num_requests) { waiting_elsewhere_ = num_requests; }
  // Once a second. `fleet`: the runners as placement has them; `num_waiting`: this frontend's
  // requests on no runner.
  void Look(const RemoteRunners& runners, const Fleet& fleet, int64_t num_waiting, int64_t now_ns);
  const ScaleHint& hint() const { return hint_; }

 private:
  const ScaleOptions scale_;
  const CostModel costs_;
  const bool consolidates_;
  ScaleAdvisor advisor_;
  ScaleHint hint_;
  int64_t waiting_elsewhere_ = 0;
};

}  // namespace graft
