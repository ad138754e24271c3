// How many runners a frontend should have, by what fills those that it has, as of the last second.
// No locks: see the owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/remote_runners.h"
#include "placement/fleet.h"
#include "placement/scale_hint.h"

namespace graft {

// Where no runner says how long it took.
inline constexpr double kStartupSeconds = 30.0;

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
  void Look(const RemoteRunners& runners, const Fleet& fleet, int64_t num_waiting, int64_t now_ns) {
    ScaleOptions scale = scale_;
    std::vector<std::string> names;
    std::vector<uint8_t> is_open;
    double slowest_seconds = 0.0;
    for (const RemoteRunner& runner : runners.all()) {
      names.push_back(runner.address);
      is_open.push_back(runner.IsOpen() ? 1 : 0);
      // One that is away will take as long again.
      slowest_seconds =
          std::max(slowest_seconds, static_cast<double>(runner.facts.startup_ms) * 1e-3);
    }
    if (scale.startup_seconds <= 0.0) {
      scale.startup_seconds = slowest_seconds > 0.0 ? slowest_seconds : kStartupSeconds;
    }
    const double filled =
        RunnersFilled(fleet, num_waiting + waiting_elsewhere_, scale.batch_share, costs_);
    advisor_.Observe(filled, runners.NumKnown(), scale, now_ns);
    hint_ = {.runners = NumOpen(fleet),
             .runners_wanted = advisor_.wanted(),
             .startup_seconds = scale.startup_seconds,
             .consolidates = consolidates_};
    for (const size_t runner : RunnersToSpare(names, is_open, hint_.runners_wanted)) {
      hint_.spare.push_back(names[runner]);
    }
  }

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
