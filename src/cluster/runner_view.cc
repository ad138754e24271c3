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

template <typename Condition>
int PickFewest(const std::vector<RunnerView>& runners, const Condition& holds) {
  int picked = -1;
  for (size_t i = 0; i < runners.size(); ++i) {
    if (!holds(i)) continue;
    if (picked < 0 || RequestsOf(runners[i]) < RequestsOf(runners[static_cast<size_t>(picked)])) {
      picked = static_cast<int>(i);
    }
  }
  return picked;
}

}  // namespace

bool CanTake(const RunnerView& runner, size_t idx, const PlacementNeeds& needs) {
  if (!runner.is_up || runner.draining) return false;
  if (!needs.pool.empty() && runner.arithmetic_id != needs.pool) return false;
  if (!needs.adapter_hash.empty() && !runner.adapters.contains(needs.adapter_hash)) return false;
  return std::find(needs.refused.begin(), needs.refused.end(), idx) == needs.refused.end();
}

int64_t PagesOf(const RunnerView& runner, int64_t tokens) {
  if (runner.page_tokens <= 0) return 0;
  return (tokens + runner.page_tokens - 1) / runner.page_tokens;
}

int PickMostIdle(const std::vector<RunnerView>& runners, const PlacementNeeds& needs) {
  return PickFewest(runners, [&](size_t i) { return CanTake(runners[i], i, needs); });
}

int PickWithRoom(const std::vector<RunnerView>& runners, const PlacementNeeds& needs,
                 int64_t tokens) {
  return PickFewest(runners, [&](size_t i) {
    const RunnerView& runner = runners[i];
    const int64_t pages = PagesOf(runner, tokens);
    return CanTake(runner, i, needs) && pages > 0 && runner.load.requests_waiting == 0 &&
           runner.load.pages_free - runner.pages_sent >= pages;
  });
}

}  // namespace graft
