#include "cluster/fleet_sizer.h"

#include <algorithm>
#include <string>
#include <vector>

namespace graft {
namespace {

// Where no runner says how long it took.
constexpr double kStartupSeconds = 30.0;

}  // namespace

void FleetSizer::Look(const RemoteRunners& runners, const Fleet& fleet, int64_t num_waiting,
                      int64_t now_ns) {
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

}  // namespace graft
