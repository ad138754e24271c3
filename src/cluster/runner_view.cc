#include "cluster/runner_view.h"

#include <algorithm>

namespace graft {
namespace {

// Others' requests are known as of the last heartbeat, this frontend's own as of now.
int64_t RequestsOf(const RunnerView& runner) {
  const RunnerLoad& load = runner.load;
  return std::max(load.requests_waiting + load.requests_running + runner.num_sent,
                  runner.num_in_flight);
}

}  // namespace

bool CanTake(const RunnerView& runner, size_t idx, const PlacementNeeds& needs) {
  if (!runner.is_up || runner.draining) return false;
  if (!needs.pool.empty() && runner.arithmetic_id != needs.pool) return false;
  if (!needs.adapter_hash.empty() && !runner.adapters.contains(needs.adapter_hash)) return false;
  return std::find(needs.refused.begin(), needs.refused.end(), idx) == needs.refused.end();
}

int PickMostIdle(const std::vector<RunnerView>& runners, const PlacementNeeds& needs) {
  int picked = -1;
  for (size_t i = 0; i < runners.size(); ++i) {
    if (!CanTake(runners[i], i, needs)) continue;
    if (picked < 0 || RequestsOf(runners[i]) < RequestsOf(runners[static_cast<size_t>(picked)])) {
      picked = static_cast<int>(i);
    }
  }
  return picked;
}

}  // namespace graft
